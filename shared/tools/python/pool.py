"""Warm child processes for `kind: python`: started when first needed, used one call at a time, ended with
everything they started when a call must stop, or left something behind."""

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import replace

import shared
from shared.errors import Signal, ToolError
from shared.events.fields import Stream
from shared.tools.base import keepers
from shared.tools.base.contract import Printing
from shared.tools.base.guard import TooLarge
from shared.tools.base.inherited import inherited
from shared.tools.python.channel import Channel
from shared.tools.python.child import FRAME_LIMIT, Reply, Request

ENDING_S = 1.0  # for a process that has closed its socket, which is one of the last things an ending one does
CRASH_TAIL = 2 * 1024  # bytes of a dead child's last words
FATAL = "Fatal Python error"  # the line that says most of all that an interpreter says in its end
PRINTED_TAIL = 64 * 1024  # bytes of what a call printed that has no answer

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Reply)


class Crashed(ToolError):
    """The child ended instead of answering; the message says how."""


class Spent(Signal):
    """The child rejects the call, because of what the one before left in it."""


class Child:
    """One process, and its warden, which is what was started: it ends when the lifeline does, with all below it.
    `output` is where its file descriptors 1 and 2 go. `clean`: it can be used again."""

    def __init__(self, folder: str) -> None:
        ours, theirs = socket.socketpair()
        self._lifeline, gone = socket.socketpair()  # a pipe could be opened again by whoever finds it in /proc
        self._output: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (kept open)
        command = [sys.executable, "-m", "shared.tools.python.child", str(theirs.fileno()), str(gone.fileno())]
        try:
            self.process = keepers.start(
                command, cwd=folder, env=_environment(), stdout=self._output, stderr=self._output,
                pass_fds=(theirs.fileno(), gone.fileno()),
            )
        finally:
            theirs.close()
            gone.close()
        self._socket = ours
        self._channel: Channel | None = None
        self._last = ""
        self._answered = False

    async def connect(self, strange: Callable[[], None]) -> None:
        """`strange` is called when it says more than its answers."""
        loop = asyncio.get_running_loop()
        _, self._channel = await loop.create_connection(lambda: Channel(strange), sock=self._socket)

    @property
    def fresh(self) -> bool:
        return self._channel is None

    @property
    def usable(self) -> bool:
        """It answered the last call, and has said nothing since."""
        return self._answered and self._channel is not None and self._channel.quiet

    async def ask(self, request: Request) -> Reply:
        """One call, one answer that names it: whatever else comes is nobody's, and the child is ended."""
        request, last = replace(request, id=os.urandom(8).hex()), self._last
        self._last, self._answered = request.id, False
        try:
            reply = await self._exchange(request)
        except ConnectionError:
            await asyncio.to_thread(self._ends)
            self.kill()  # what it started goes too, and a process that only closed the socket ends
            raise Crashed(await asyncio.to_thread(self._last_words)) from None
        except msgspec.DecodeError:
            raise Crashed("the process said something that is no answer") from None
        if reply.left and reply.id == last:
            raise Spent(reply.left)
        if reply.left or reply.id != request.id:
            raise Crashed("the process answered another call")
        self._answered = True
        return reply

    async def _exchange(self, request: Request) -> Reply:
        data = _encoder.encode(request)
        if len(data) > FRAME_LIMIT:
            raise TooLarge(f"code and args together are over {FRAME_LIMIT} bytes")
        assert self._channel is not None
        return _decoder.decode(await self._channel.exchange(data))

    def kill(self) -> None:
        """The warden ends the process and everything below it, and then itself."""
        self._lifeline.close()
        self.process.send_signal(signal.SIGCONT)  # the code may have stopped it
        if self._channel is None:
            self._socket.close()
        else:
            self._channel.close()

    def reap(self) -> None:
        """Blocks until the warden has ended, which is soon after `kill`."""
        keepers.wait(self.process)
        self._output.close()

    def _ends(self) -> None:
        """Its wardens say how it ended, if they get to it before they are ended themselves."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDING_S)

    def _last_words(self) -> str:
        code = keepers.wait(self.process)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        lines = self.printed(CRASH_TAIL).split("\n")
        said = next((each for each in lines if each.startswith(FATAL)), "")
        said = said or next((each for each in reversed(lines) if each.strip()), "")
        return f"the process ended with {how}" + (f": {said.strip()}" if said else "")

    def printed(self, most: int = PRINTED_TAIL) -> str:
        """What the call has printed so far, the last bytes of it."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), most, max(size - most, 0)).decode("utf-8", "replace")

    def streams(self, most: int) -> Mapping[Stream, str]:
        return {"stdout": self.printed(most)}


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

    async def ask(
        self, request: Request, printed: dict[str, Any] | None = None, printing: Printing | None = None
    ) -> Reply:
        """`printed` gets what the call printed if it has no answer: it crashed, or was cut short; `printing` knows it
        before."""
        while True:
            try:
                async with self._slots:
                    return await self._ask(request, printed, printing)
            except Spent:
                continue

    async def _ask(self, request: Request, printed: dict[str, Any] | None, printing: Printing | None) -> Reply:
        """One child for one call. Whatever ends the call but an answer, and whatever the call leaves behind, ends the
        child."""
        child = self._warm() or self._start()
        self._busy.add(child)
        try:
            if child.fresh:
                await child.connect(functools.partial(self._retire, child))
            if printing is not None:
                printing.so_far = child.streams
            reply = await child.ask(request)
        except BaseException as error:
            if printed is not None and isinstance(error, asyncio.CancelledError | Crashed):
                printed.update({"stdout": said} if (said := child.printed()) else {})
            self._end(child)
            raise
        finally:
            if printing is not None:
                printing.so_far = None  # what it printed into may be closed
        if child.usable:
            self._busy.discard(child)
            self._idle.append(child)
        else:
            self._end(child)
        return reply

    def _warm(self) -> Child | None:
        """The one that answered last: what the system and the processor keep of it is warm, which is worth more than
        that it is still looking at what the call left."""
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
            self._end(child)
        return None

    def _retire(self, child: Child) -> None:
        """It waits to be ended, with what the last call left."""
        if child in self._idle:
            self._idle.remove(child)
            self._end(child)

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
    root = str(Path(shared.__path__[0]).parent)
    return {**inherited(), "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
