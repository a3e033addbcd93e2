"""A container as a process: bubblewrap gives it a root that is read-only, with the programs of this machine, the
project's tree in place of an image, and the Pod's volumes where they are mounted. It is process 1 unless the Pod shares
its processes, so a signal it does not handle does nothing, as in a cluster. It runs as whoever runs the tests: what a
user of an image may do is tested by `make test-image`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from shared.runtime.embedded.nats_server import find_binary
from tests.k8s.cluster.api import Object
from tests.k8s.kubelet.sandbox import Sandbox, below
from tests.k8s.kubelet.volumes import Volumes
from tests.support.paths import ROOT

TREE = "/opt/noetl"
HOST_FILES = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl",
              "/etc/alternatives")
IMAGE = {"PATH": f"{Path(sys.executable).parent}:{Path(find_binary()).parent}:/usr/bin:/bin", "HOME": "/tmp",
         "LANG": "C.UTF-8", "PYTHONPATH": TREE, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
         "PYTHONSAFEPATH": "1"}
WRAPPERS = ("nsenter", "bwrap")


class Container:
    def __init__(
        self, spec: Object, environment: dict[str, str], sandbox: Sandbox, volumes: Volumes, hosts: Path, log: Path
    ) -> None:
        self.log, self.began = log, time.time()
        command = [*spec.get("command", ()), *spec.get("args", ())]
        mounts = [(str(volumes.place(each["name"])), each["mountPath"], bool(each.get("readOnly")))
                  for each in spec.get("volumeMounts", ())]
        wrapped = [*sandbox.enter, *_bubble(mounts, hosts, own_processes=not sandbox.shares_processes), *command]
        with log.open("ab") as out:
            self._process = subprocess.Popen(wrapped, stdout=out, stderr=out, env={**IMAGE, **environment})

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """To its first process."""
        for pid in below(self._process.pid):
            if _name(pid) not in WRAPPERS:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
                return

    def end(self, within_s: float) -> int:
        """As a kubelet does: it is asked, and killed when its time is over. How it ended."""
        self.send(signal.SIGTERM)
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self._process.wait()
            return 128 + signal.SIGKILL


def _bubble(mounts: list[tuple[str, str, bool]], hosts: Path, *, own_processes: bool) -> list[str]:
    found = ["bwrap", "--ro-bind", "/usr", "/usr", *_links(), "--proc", "/proc", "--dev", "/dev", "--dir", "/run"]
    for each in HOST_FILES:
        found += ["--ro-bind-try", each, each]
    found += ["--ro-bind", str(hosts), "/etc/hosts"]
    for source, place, read_only in mounts:
        found += ["--ro-bind" if read_only else "--bind", source, place]
    for prefix in sorted({sys.prefix, sys.base_prefix} - {"/usr"}):
        found += ["--ro-bind", prefix, prefix]
    found += ["--ro-bind", str(ROOT), TREE, "--chdir", "/"]
    found += ["--unshare-pid", "--as-pid-1"] if own_processes else []
    return [*found, "--unshare-ipc", "--remount-ro", "/"]


def _links() -> list[str]:
    """/bin, /lib and their like, which are links today."""
    found = [each for each in Path("/").iterdir() if each.is_symlink() and str(each.readlink()).startswith("usr/")]
    return [part for each in found for part in ("--symlink", str(each.readlink()), str(each))]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
