"""The engine's services as OS processes: start, wait until ready, CPU used, stop."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

READY_S = 40.0
STOP_S = 25.0


class Service:
    """One `python -m services.<name>`; under cProfile when `profile` names the file to write."""

    def __init__(
        self, name: str, environ: Mapping[str, str], folder: Path, profile: Path | None = None, called: str = ""
    ) -> None:
        self.name = called or name
        self._port = free_port()
        self._environ = {**os.environ, **environ, "NOETL_HEALTH_PORT": str(self._port)}
        self._log = folder / f"{self.name}.log"
        module = f"services.{name}"
        self._command = ["-m", "benchmarks.profiled", str(profile), module] if profile else ["-m", module]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, env=self._environ, stderr=log
            )

    async def ready(self, within_s: float = READY_S) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not await self._is_ready():
                    self.check()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise SystemExit(f"{self.name} is not ready after {within_s} s:\n{self.tail()}") from None

    async def _is_ready(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        answer = await reader.read(64)
        writer.close()
        return b" 200 " in answer

    def check(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            raise SystemExit(f"{self.name} ended with {self._process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def said(self, event: str) -> int:
        """How many lines of its log name the event."""
        return self._log.read_text(errors="replace").count(event)

    async def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None, "start it first"
        self._process.kill()
        await self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None, "start it first"
        return self._process.pid

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
