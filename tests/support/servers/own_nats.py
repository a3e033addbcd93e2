"""A NATS server of somebody else's: not the engine's accounts, but users of its own."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import msgspec

from shared.runtime.embedded.nats_server import HOST, find_binary, free_port

PASSWORD = "pass-of-the-author"
MAX_PAYLOAD = 1_048_576


class OwnNats:
    """`full` may do everything, `narrow` only use subjects under `open`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self._monitor = folder, free_port(), free_port()
        self.url = f"nats://{HOST}:{self.port}"
        narrow = {"publish": ["open.>"], "subscribe": ["_INBOX.>", "open.>"]}
        config = {
            "host": HOST, "port": self.port, "http": f"{HOST}:{self._monitor}", "max_payload": MAX_PAYLOAD,
            "jetstream": {"store_dir": str(folder / "data")},
            "authorization": {"users": [
                {"user": "full", "password": PASSWORD},
                {"user": "narrow", "password": PASSWORD, "permissions": narrow},
            ]},
        }
        (folder / "nats.conf").write_bytes(msgspec.json.encode(config))
        self._process: subprocess.Popen[bytes] | None = None

    def credential(self, user: str = "full") -> dict[str, str]:
        return {"url": self.url, "user": user, "password": PASSWORD}

    def connections(self) -> int:
        """How many clients are connected."""
        with urlopen(f"http://{HOST}:{self._monitor}/connz") as answer:
            return int(msgspec.json.decode(answer.read())["num_connections"])

    def start(self) -> None:
        with (self.folder / "nats.log").open("ab") as log:
            command = [find_binary(), "-c", str(self.folder / "nats.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            time.sleep(0.01)
        raise TimeoutError((self.folder / "nats.log").read_text())

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.kill(process.pid, 9)
            process.wait()


@contextlib.contextmanager
def running_nats(folder: Path) -> Iterator[OwnNats]:
    server = OwnNats(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
