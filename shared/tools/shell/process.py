"""One script as a process with a session of its own: what it says is kept within limits, and when it ends, or
has to, everything it started ends with it."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from shared.tools.running import BadCall, TooLarge

OUTPUT_LIMIT = 1_048_576  # bytes kept of each of stdout and stderr: the first half and the last
TERM_GRACE_S = 2.0        # between SIGTERM and SIGKILL
DRAIN_S = 1.0             # for what a process that left the session still says
POLL_S = 0.02             # where the kernel cannot tell that a process has ended
# Ends the session when the worker dies: the worker holds the other end of its stdin.
_GUARD = 'read -r _; kill -s KILL -- "-$0"'


class Capture(asyncio.Protocol):
    """Keeps the beginning and the end of a stream."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0
        self.done = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    @property
    def whole(self) -> bool:
        return self._size <= 2 * self._half

    def text(self) -> str:
        head, tail = self._head.decode("utf-8", "replace"), self._tail[-self._half :].decode("utf-8", "replace")
        if self.whole:
            return (self._head + self._tail).decode("utf-8", "replace")
        return f"{head}\n… {self._size - 2 * self._half} bytes left out …\n{tail}"


class Process:
    """Runs from its making; after `finish` nothing of it is left."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: str, stdin: IO[bytes] | int) -> None:
        try:
            self._process = subprocess.Popen(
                command, env=env, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                bufsize=0, start_new_session=True,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise TooLarge("the script and its variables are over what the system takes") from None
            raise BadCall(f"{command[0]} cannot be started: {error.strerror}") from None
        self._guard: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._lifeline = -1
        self._gone = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self.stdout, self.stderr = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        self._pipes: list[asyncio.BaseTransport] = []

    async def finish(self) -> int:
        """The exit code, as a shell says it. Cancelled, it ends the script first."""
        try:
            self._watch()
            await self._listen()
            await self._gone.wait()
        except asyncio.CancelledError:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TERM_GRACE_S):
                    await self._gone.wait()
            raise
        finally:
            code = self._end()
            await self._drain()
        return code if code >= 0 else 128 - code

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for pipe, capture in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            transport, _ = await loop.connect_read_pipe(lambda capture=capture: capture, pipe)  # type: ignore[misc]
            self._pipes.append(transport)

    def _watch(self) -> None:
        """Says when the script has ended without reaping it: until then its id is its own."""
        gone, self._lifeline = os.pipe()
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, str(self._process.pid)], stdin=gone, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )
        except OSError as error:
            raise BadCall(f"/bin/sh cannot be started: {error.strerror}") from None
        finally:
            os.close(gone)
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            self._waiting = asyncio.create_task(self._poll())
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self._gone.set)

    async def _poll(self) -> None:
        while self._process.poll() is None:  # noqa: ASYNC110 (nothing tells it)
            await asyncio.sleep(POLL_S)
        self._gone.set()

    def _signal(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, how)

    def _end(self) -> int:
        """Kills what is left of the session and reaps; at once, because nothing outlives SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._guard is not None:  # before the script is reaped: then its id may be another's
            self._guard.kill()
            self._guard.wait()
        if self._waiting is not None:
            self._waiting.cancel()
        code = self._process.wait()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
        for handle in (self._pidfd, self._lifeline):
            if handle >= 0:
                os.close(handle)
        return code

    async def _drain(self) -> None:
        if self._pipes:
            await asyncio.wait([self.stdout.done, self.stderr.done][: len(self._pipes)], timeout=DRAIN_S)
        for pipe in self._pipes:
            pipe.close()
        for stream in (self._process.stdout, self._process.stderr)[len(self._pipes) :]:
            assert stream is not None
            stream.close()
