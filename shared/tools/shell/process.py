"""One script under a warden of its own (`warden.py`): what it says is kept within limits, and when it ends, or has
to, everything it started ends with it, also when the worker is killed."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import shared
from shared import left_out
from shared.errors import ToolError
from shared.events.fields import Stream
from shared.tools.base import keepers
from shared.tools.base.guard import BadCall, TooLarge
from shared.tools.shell.warden import SIZE

OUTPUT_LIMIT = 1_048_576  # bytes kept of each of stdout and stderr: the first half and the last
TERM_GRACE_S = 2.0        # between SIGTERM and SIGKILL
KILL_GRACE_S = 2.0        # for the warden to end what is left
AWAKE_S = 1.0             # between looks whether what makes wardens is at work
DRAIN_S = 1.0             # for what a process that the warden cannot end still says


class Lost(ToolError):
    """The warden ended before its script."""


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
        return left_out.between(head, self._size - 2 * self._half, tail)

    def end(self, most: int) -> str:
        """Its last bytes so far."""
        found = self._tail[-most:]
        if len(found) < most:  # nothing was left out
            found = self._head[len(found) - most:] + found
        return found.decode("utf-8", "replace")


class Wardens:
    """What makes wardens: a process that is started for the first script, and again if it is gone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def new(self) -> socket.socket:
        """The socket to a warden of its own."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._ask(theirs)
            except OSError:
                self.close()
                self._ask(theirs)
        ours.setblocking(False)
        return ours

    def wake(self) -> None:
        """A script may have stopped it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _ask(self, theirs: socket.socket) -> None:
        if self._socket is None:
            self._start()
        self.wake()
        assert self._socket is not None
        socket.send_fds(self._socket, [b"+"], [theirs.fileno()])

    def _start(self) -> None:
        self._socket, end = socket.socketpair()
        command = [sys.executable, "-S", "-m", "shared.tools.shell.warden", str(end.fileno())]
        with end:
            self._process = keepers.start(
                command, env={"PYTHONPATH": str(Path(shared.__path__[0]).parent)}, cwd="/", stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, pass_fds=(end.fileno(),),
            )

    def close(self) -> None:
        """Ends them, and what they keep."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self.wake()
            keepers.wait(self._process)
        self._socket = self._process = None


class Process:
    """Runs within `finish`, after which nothing of it is left."""

    def __init__(
        self, wardens: Wardens, command: Sequence[str], env: Mapping[str, str], folder: str, stdin: IO[bytes],
    ) -> None:
        wanted = {"command": list(command), "env": dict(env), "folder": folder}
        self._name, self._wanted, self._wardens = command[0], json.dumps(wanted).encode(), wardens
        self.stdout, self.stderr = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        self._pipes: list[asyncio.BaseTransport] = []
        self._ends: list[IO[bytes]] = []
        try:
            self._control = wardens.new()
            self._hand_over(stdin)
        except OSError as error:
            raise BadCall(f"{self._name} cannot be started: {error.strerror}") from None

    def _hand_over(self, stdin: IO[bytes]) -> None:
        theirs: list[int] = []
        try:
            for _ in range(2):
                end, other = os.pipe()
                self._ends.append(os.fdopen(end, "rb", 0))
                theirs.append(other)
            socket.send_fds(self._control, [SIZE.pack(len(self._wanted))], [stdin.fileno(), *theirs])
        finally:
            for handle in theirs:
                os.close(handle)

    def streams(self, most: int) -> Mapping[Stream, str]:
        """What it has said so far, the last bytes of it."""
        return {"stdout": self.stdout.end(most), "stderr": self.stderr.end(most)}

    async def finish(self) -> int:
        """The exit code, as a shell says it. Cancelled, it ends the script first."""
        answer = asyncio.ensure_future(self._answer())
        try:
            await self._listen()
            while not (await asyncio.wait({answer}, timeout=AWAKE_S))[0]:
                self._wardens.wake()
            return self._code(answer.result())
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                self._control.send(bytes([signal.SIGTERM]))
            await asyncio.wait({answer}, timeout=TERM_GRACE_S)
            raise
        finally:
            await self._end(answer)

    async def _answer(self) -> dict[str, Any]:
        loop, said = asyncio.get_running_loop(), bytearray()
        try:
            await loop.sock_sendall(self._control, self._wanted)
            while part := await loop.sock_recv(self._control, 4096):
                said += part
            found: dict[str, Any] = json.loads(said)
        except (OSError, ValueError):
            raise Lost("the process that keeps the script has ended") from None
        return found

    def _code(self, answer: dict[str, Any]) -> int:
        if "code" not in answer:
            if answer["errno"] == errno.E2BIG:
                raise TooLarge("the script and its variables are over what the system takes")
            raise BadCall(f"{self._name} cannot be started: {answer['error']}")
        code = int(answer["code"])
        return code if code >= 0 else 128 - code

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for pipe, capture in zip(self._ends, (self.stdout, self.stderr), strict=True):
            transport, _ = await loop.connect_read_pipe(lambda capture=capture: capture, pipe)  # type: ignore[misc]
            self._pipes.append(transport)

    async def _end(self, answer: "asyncio.Future[dict[str, Any]]") -> None:
        """Nobody holds the script now: its warden ends what is left, and answers when it is over."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        self._wardens.wake()
        await asyncio.wait({answer}, timeout=KILL_GRACE_S)
        answer.cancel()
        await asyncio.wait({answer})
        if not answer.cancelled():
            answer.exception()
        self._control.close()
        if self._pipes:
            await asyncio.wait([self.stdout.done, self.stderr.done][: len(self._pipes)], timeout=DRAIN_S)
        for pipe in self._pipes:
            pipe.close()
        for end in self._ends[len(self._pipes) :]:
            end.close()
