"""The image at work, without a container engine: python -m tests.deploy.image IMAGE

IMAGE is unpacked with buildah; every service is started from it by bubblewrap as the image's user, with its
environment, a root that is read-only, a /tmp of its own, and no capability, against a broker and a PostgreSQL on
loopback. An execution is started by the image's noetlctl and has to end; then every service is asked to go.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from shared.bus import topology
from shared.bus.jetstream import connect
from shared.bus.streams import ensure
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from tests.deploy.helm import CHART
from tests.support.servers.postgres import running_postgres
from tests.support.terminal import say
from tests.support.waiting import wait_until

SERVICES = {"router": "router", "scheduler": "scheduler", "worker": "worker_default", "pools": "pools",
            "projector": "projector"}
STORAGE = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
READY_S, END_S = 60.0, 30.0
PLAYBOOK = "noetl/helm-test"
SOCKET = ".s.PGSQL.5432"


class Image:
    """Unpacked into `root`."""

    def __init__(self, name: str, root: Path) -> None:
        self.root = root
        container = _buildah("from", name)
        try:
            subprocess.run(["cp", "-a", f"{_buildah('mount', container)}/.", str(root)], check=True)
        finally:
            _buildah("rm", container)
        root.chmod(0o755)
        config = json.loads(_buildah("inspect", "--type", "image", name))["OCIv1"]["config"]
        self.user, _, self.group = config["User"].partition(":")
        self.environment = dict(each.split("=", 1) for each in config["Env"])
        self.folder = config["WorkingDir"]

    def command(self, environment: Mapping[str, str], files: Mapping[str, Path], *args: str) -> list[str]:
        """`files`: what stands at a place below /run."""
        given = {**self.environment, **environment}
        return [
            "setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups",
            "bwrap", "--ro-bind", str(self.root), "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--proc", "/proc",
            "--dev", "/dev", "--unshare-all", "--share-net", "--cap-drop", "ALL", "--die-with-parent", "--clearenv",
            *(part for name, value in given.items() for part in ("--setenv", name, value)),
            *(part for place, file in files.items() for part in ("--ro-bind", str(file), place)),
            "--remount-ro", "/run", "--chdir", self.folder, *args,
        ]


def _buildah(*args: str) -> str:
    done = subprocess.run(["buildah", *args], capture_output=True, text=True, check=True, env={**os.environ, **STORAGE})
    return done.stdout.strip()


class Stand:
    """A broker with its streams, a database, and the files by which each user shows who it is."""

    def __init__(self, image: Image, folder: Path, dsn: str) -> None:
        self.image, self._folder = image, folder
        self.broker = NatsServer(folder / "nats").start()
        asyncio.run(self._bootstrap())
        shared = folder / "postgres"  # its socket under another name: the folder it is in is its owner's alone
        shared.mkdir()
        socket = Path(urlsplit(dsn).query.removeprefix("host=")) / SOCKET
        os.link(socket, shared / SOCKET)
        (folder / "dsn").write_text(dsn.replace(str(socket.parent), "/run/noetl/postgres"))
        for user, password in self.broker.passwords.items():
            (folder / user).write_text(password)
        for file in folder.iterdir():
            file.chmod(0o755 if file.is_dir() else 0o444)

    async def _bootstrap(self) -> None:
        bus = await connect(self.broker.url_for("admin"))
        try:
            await ensure(bus, topology.wanted())
        finally:
            await bus.close()

    def command(self, user: str, environment: Mapping[str, str], *args: str) -> list[str]:
        files = {"/run/noetl/login": self._folder / user, "/run/noetl/test.yaml": CHART / "files/test.yaml"}
        variables = {"NOETL_NATS_URL": self.broker.url, "NOETL_NATS_USER": user,
                     "NOETL_NATS_PASSWORD_FILE": "/run/noetl/login", **environment}
        if user in ("projector", "admin"):
            variables["NOETL_POSTGRES_DSN_FILE"] = "/run/noetl/dsn"
            files |= {"/run/noetl/dsn": self._folder / "dsn", "/run/noetl/postgres": self._folder / "postgres"}
        return self.image.command(variables, files, *args)

    def noetlctl(self, *args: str) -> str:
        command = self.command("admin", {}, "noetlctl", *args)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=READY_S)
        if done.returncode:
            raise SystemExit(f"noetlctl {' '.join(args)} exits with {done.returncode}: {done.stderr}")
        return done.stdout

    @contextmanager
    def service(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        port, log = free_port(), self._folder / f"{name}.log"
        environment = {"NOETL_HEALTH_PORT": str(port), "NOETL_HEALTH_HOST": HOST}
        with log.open("wb") as file:
            process = subprocess.Popen(
                self.command(SERVICES[name], environment, "python", "-m", f"services.{name}"), stdout=file, stderr=file)
        try:
            began = time.monotonic()
            wait_until(lambda: _ready(port), f"{name} is ready", READY_S, instead=log.read_text)
            say(f"  {name:<10} ready after {time.monotonic() - began:.1f} s  {inside(process.pid)}")
            yield process
        finally:
            if process.poll() is None:
                _within(process.pid, signal.SIGTERM)
                say(f"  {name:<10} ended with {process.wait(END_S)}")


def _ready(port: int) -> bool:
    try:
        with urlopen(f"http://{HOST}:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _descendants(pid: int) -> list[int]:
    below = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(found for child in below for found in _descendants(child))]


def _service(pid: int) -> int:
    """The service's own process: bubblewrap is around it, and is the first process of its world."""
    return next(each for each in _descendants(pid) if b"services." in Path(f"/proc/{each}/cmdline").read_bytes()
                and Path(f"/proc/{each}/comm").read_text().strip() != "bwrap")


def _within(pid: int, number: signal.Signals) -> None:
    os.kill(_service(pid), number)


def inside(pid: int) -> str:
    """What the kernel says of the service; raises when it may more than it should."""
    lines = Path(f"/proc/{_service(pid)}/status").read_text().splitlines()
    found: dict[str, Any] = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert set(found["Uid"]) == {"65532"}, found["Uid"]
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[name][0], 16) == 0, f"{name} is {found[name]}"
    return "uid 65532, no capability"


def check(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="noetl-image-") as place, ExitStack() as stack:
        root, folder = Path(place) / "root", Path(place) / "stand"
        for each in (root, folder):
            each.mkdir()
        Path(place).chmod(0o755)
        image = Image(name, root)
        for written in ("/x", "/opt/noetl/x", "/run/x"):
            command = image.command({}, {}, "sh", "-c", f"touch {written}")
            done = subprocess.run(command, capture_output=True, check=False)
            assert done.returncode, f"{written} can be written"
        subprocess.run(image.command({}, {}, "sh", "-c", "touch /tmp/x && test $HOME = /tmp"), check=True)
        say("  only /tmp can be written")
        stand = Stand(image, folder, stack.enter_context(running_postgres()))
        stack.callback(stand.broker.stop)
        processes = [stack.enter_context(stand.service(each)) for each in SERVICES]
        stand.noetlctl("register", "/run/noetl/test.yaml")
        ended = json.loads(stand.noetlctl("execute", PLAYBOOK, "--wait", "--timeout", "50", "-o", "json"))
        say(f"  execution  {ended}")
        stand.noetlctl("verify", ended["execution_id"])
        wait_until(lambda: ended["execution_id"] in stand.noetlctl("get", "-o", "json"), "it is in the read model")
        say("  verify finds nothing wrong, and the read model has it")
        for service, process in zip(SERVICES, processes, strict=True):
            _within(process.pid, signal.SIGTERM)
            assert process.wait(END_S) == 0, f"{service} exits with {process.returncode}"
        say("  every service ended with 0 when it was asked to")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", help="its name, as buildah knows it")
    check(parser.parse_args().image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
