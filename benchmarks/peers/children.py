"""The processes of a peer: servers, services, and the program that starts executions and times them."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.processes import STOP_S

PROGRAMS = Path(__file__).parent / "programs"
PR_SET_PDEATHSIG = 1  # prctl(2)
ANSWER_BYTES = 1 << 24  # of one line: the times of some thousand executions


class Child:
    """One process with a group of its own, so that what it starts ends with it."""

    def __init__(self, name: str, command: Sequence[str | Path], environ: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._command = [str(part) for part in command]
        self._environ = {**os.environ, **environ}
        self._folder, self._log = folder, folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, talks: bool = False) -> "Child":
        pipe = asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environ,
                cwd=self._folder,
                stdin=pipe,
                stdout=pipe if talks else log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_us,
                limit=ANSWER_BYTES,
            )
        return self

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "start it first"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        if self.process.returncode is not None:
            raise SystemExit(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])

    def said(self, text: str) -> int:
        return self._log.read_text(errors="replace").count(text)

    async def listens(self, port: int, within_s: float = 60.0) -> None:
        await self._until(lambda: _answers(port), f"listen on {port}", within_s)

    async def says(self, text: str, times: int = 1, within_s: float = 60.0) -> None:
        async def said() -> bool:
            return self.said(text) >= times

        await self._until(said, f"say {text!r} {times} times", within_s)

    async def _until(self, reached: Any, what: str, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not await reached():
                    self.check()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise SystemExit(f"{self.name} does not {what} within {within_s} s:\n{self.tail()}") from None

    async def stop(self) -> None:
        """Politely, and then with all that it started."""
        if self._process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await self.process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its group is ours: `start_new_session`
        await self.process.wait()


class Driver(Child):
    """A program that is given jobs, a line of JSON each, and answers each with a line."""

    async def ask(self, job: Mapping[str, Any], within_s: float) -> dict[str, Any]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None, "start it so that it talks"
        assert stdout is not None, "start it so that it talks"
        stdin.write(msgspec.json.encode(job) + b"\n")
        await stdin.drain()
        try:
            async with asyncio.timeout(within_s):
                line = await stdout.readline()
        except TimeoutError:
            raise SystemExit(f"{self.name} has no answer after {within_s} s:\n{self.tail()}") from None
        if not line:
            await self.process.wait()
            raise SystemExit(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
        found: dict[str, Any] = msgspec.json.decode(line)
        return found


def _end_with_us() -> None:
    """A bench that is killed leaves nothing behind: its group is another one, so the child asks to be told."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
