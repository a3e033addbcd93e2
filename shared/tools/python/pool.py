"""Warm child processes for `kind: python`: started when first needed, used one call at a time, killed with
everything they started when a call must stop."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import msgspec

import shared
from shared.tools.python_child import FRAME_LIMIT, HEADER, Reply, Request
from shared.tools.running import TooLarge

READ_BUFFER = 1024 * 1024
CRASH_TAIL = 2 * 1024  # bytes of a dead child's last words

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Reply)


class Crashed(Exception):
    """The child ended instead of answering; the message says how."""


class Child:
    """One process. `output` is where its file descriptors 1 and 2 go."""

    def __init__(self, folder: str) -> None:
        ours, theirs = socket.socketpair()
        gone, self._lifeline = os.pipe()
        self._output: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (kept open)
        command = [sys.executable, "-m", "shared.tools.python_child", str(theirs.fileno()), str(gone)]
        try:
            self.process = subprocess.Popen(
                command, cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=self._output,
                stderr=self._output, pass_fds=(theirs.fileno(), gone), start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(gone)
        self._socket = ours
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=READ_BUFFER)

    @property
    def fresh(self) -> bool:
        return self._writer is None

    @property
    def alive(self) -> bool:
        return not self._reader.at_eof()

    async def ask(self, request: Request) -> Reply:
        data = _encoder.encode(request)
        if len(data) > FRAME_LIMIT:
            raise TooLarge(f"code and args together are over {FRAME_LIMIT} bytes")
        assert self._writer is not None
        try:
            self._writer.write(HEADER.pack(len(data)) + data)
            await self._writer.drain()
            size = HEADER.unpack(await self._reader.readexactly(HEADER.size))[0]
            return _decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.kill()  # what it started goes too, and a process that only closed the socket ends
            raise Crashed(await asyncio.to_thread(self._last_words)) from None

    def kill(self) -> None:
        """Ends the process and its group, which keeps its id until the process is reaped."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        (self._writer or self._socket).close()

    def reap(self) -> None:
        """Blocks until the kernel has ended the process, which is at once after `kill`."""
        self.process.wait()
        self._output.close()
        os.close(self._lifeline)

    def _last_words(self) -> str:
        code = self.process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), CRASH_TAIL, max(size - CRASH_TAIL, 0))
        said = tail.decode("utf-8", "replace").strip()
        return f"the process ended with {how}" + (f": {said}" if said else "")


class Pool:
    def __init__(self, size: int, temp_folder: str) -> None:
        self._size = size
        self._closed = False
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="noetl-python-", dir=temp_folder or None,
                                                   ignore_cleanup_errors=True)
        self._reaping: set[asyncio.Future[None]] = set()

    async def ask(self, request: Request) -> Reply:
        async with self._child() as child:
            return await child.ask(request)

    @contextlib.asynccontextmanager
    async def _child(self) -> AsyncIterator[Child]:
        """A child for one call. Whatever ends the call but an answer ends the child."""
        async with self._slots:
            child = self._warm() or self._start()
            self._busy.add(child)
            try:
                if child.fresh:
                    await child.connect()
                yield child
            except BaseException:
                self._end(child)
                raise
            self._busy.discard(child)
            self._idle.append(child)

    def _warm(self) -> Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._end(child)
        return None

    def _start(self) -> Child:
        try:
            return Child(self._folder.name)
        except OSError as error:
            raise Crashed(f"the process cannot be started: {error.strerror}") from None

    def _end(self, child: Child) -> None:
        self._busy.discard(child)
        child.kill()
        reaped = asyncio.get_running_loop().run_in_executor(None, child.reap)
        self._reaping.add(reaped)
        reaped.add_done_callback(self._reaping.discard)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for child in self._busy:
            child.kill()
        for _ in range(self._size):
            await self._slots.acquire()  # every call is over, and none can start
        while self._idle:
            self._end(self._idle.pop())
        await asyncio.gather(*self._reaping)
        self._folder.cleanup()


def _environment() -> dict[str, str]:
    """The worker's own settings hold credentials: user code does not inherit them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    root = str(Path(shared.__path__[0]).parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return environment
