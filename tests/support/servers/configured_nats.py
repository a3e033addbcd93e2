"""A NATS server as somebody else configures it: any configuration, read again on `reload`."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from shared.runtime.embedded.nats_server import HOST, find_binary, free_port

READY_S = 10.0


class ConfiguredNats:
    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self._log, self._config = folder / "nats.log", folder / "nats.conf"
        self._process: subprocess.Popen[bytes] | None = None
        self.configure(config)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"nats://{self.address}"

    def configure(self, config: dict[str, Any]) -> None:
        own = {"host": HOST, "port": self.port, "jetstream": {"store_dir": str(self.folder / "data")}}
        self._config.write_bytes(msgspec.json.encode({**own, **config}))

    def start(self) -> None:
        self._log.write_bytes(b"")
        with self._log.open("ab") as out:
            self._process = subprocess.Popen([find_binary(), "-c", str(self._config)], stdout=out, stderr=out)
        self._wait("Server is ready")

    def reload(self) -> None:
        assert self._process is not None, "start it first"
        self._log.write_bytes(b"")
        self._process.send_signal(signal.SIGHUP)
        self._wait("Reloaded server configuration")

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> "ConfiguredNats":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self, words: str) -> None:
        """A port that is open does not say that it serves, and one that begins by TLS does not greet."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if words in self._log.read_text(errors="replace"):
                return
            time.sleep(0.01)
        self.stop()
        raise TimeoutError(f"no {words!r}: {self._log.read_text(errors='replace')[-2000:]}")
