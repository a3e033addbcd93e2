"""A child process of `kind: python`: reads requests from a socket, runs them, answers. Started as
`python -m shared.tools.python.child <socket fd> <lifeline fd>`; user code never runs in a worker, nor in the process
that was started: that one is the warden of the warden of a copy of itself, which works."""

import contextlib
import contextvars
import io
import os
import socket
import struct
import sys
import warnings
from typing import Any

import msgspec

from shared import left_out
from shared.tools.base import warden
from shared.tools.base.warden_watch import Keepers
from shared.tools.python.code import run
from shared.tools.python.leftovers import Leftovers
from shared.tools.python.whole_results import Path, with_wholes

HEADER = struct.Struct(">I")
FRAME_LIMIT = 33 * 1024 * 1024   # a result at its limit, and what goes with it
OUTPUT_LIMIT = 64 * 1024         # bytes that are kept of what the call prints: the first half and the last
FILE_LIMIT = 16 * 1024 * 1024    # characters that the code prints into its file; more is dropped


class Request(msgspec.Struct, frozen=True):
    """`id` is this request's alone, `call` the idempotency key of its call, which the outcome names. `loops` and
    `tables` say which of the args are whole results (`whole_results`)."""

    code: str
    args: dict[str, Any]
    libs: dict[str, str]
    id: str = ""
    call: str = ""
    loops: list[tuple[Path, int, int]] = []
    tables: list[Path] = []


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`id` and `call` are the request's. `error` None: `result` is the value. `kind` is the error's. With `left` it is
    no answer but the last message, after it: what the call left in the process, which is therefore not used again."""

    id: str = ""
    left: str = ""
    result: Any = None
    error: str | None = None
    kind: str = ""
    exception_type: str | None = None
    traceback: str = ""
    stdout: str = ""
    call: str = ""


class Output(io.TextIOBase):
    """What user code prints, up to a limit; the rest is counted and dropped. It goes to the file that is also below the
    file descriptors 1 and 2, at once: when the process does not live to answer, its worker finds it there."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.room = FILE_LIMIT
        self.dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: max(self.room, 0)]
        try:
            os.write(self.file, kept.encode("utf-8", "replace"))  # it may be no text for UTF-8
        except OSError:  # a full disk is no fault of the code that prints
            kept = ""
        self.room -= len(kept)
        self.dropped += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        """What is in the file, which is empty then: also what other programs and C libraries wrote."""
        size, half = os.fstat(self.file).st_size, OUTPUT_LIMIT // 2
        if size <= OUTPUT_LIMIT:
            said = self._part(size, 0)
        else:
            said = left_out.between(self._part(half, 0), size - 2 * half, self._part(half, size - half))
        os.ftruncate(self.file, 0)
        os.lseek(self.file, 0, os.SEEK_SET)
        return said + left_out.after(self.dropped)

    def _part(self, size: int, at: int) -> str:
        return os.pread(self.file, size, at).decode("utf-8", "replace")


def main() -> None:
    ours, lifeline = int(sys.argv[1]), int(sys.argv[2])
    work(ours, Keepers(*warden.go_below(lifeline, ours)))


def work(ours: int, keepers: Keepers) -> None:
    os.set_inheritable(ours, False)
    channel = socket.socket(fileno=ours)
    channel.setblocking(True)
    stream = channel.makefile("rb", buffering=64 * 1024)
    os.register_at_fork(after_in_child=channel.close)  # a copy has nothing to say on it
    os.register_at_fork(after_in_child=stream.close)
    decoder, encoder = msgspec.json.Decoder(Request), msgspec.json.Encoder()
    file = os.dup(1)  # of our own: the code may close the other
    leftovers = Leftovers()
    while header := stream.read(HEADER.size):
        request = decoder.decode(stream.read(HEADER.unpack(header)[0]))
        done, said = _done(request, file)
        keepers.check()  # one that was signalled ends this process: the call that did it fails, not the next one
        _say(channel, encoder.encode(Reply(**done, id=request.id, call=request.call, stdout=said)))
        if left := leftovers.found():  # after the answer, which does not wait for it
            _say(channel, encoder.encode(Reply(request.id, left)))
            while channel.recv(HEADER.size):  # until the worker ends it: what it sent meanwhile is for another child
                pass
            os._exit(0)


def _say(channel: socket.socket, reply: bytes) -> None:
    channel.sendall(HEADER.pack(len(reply)) + reply)


def _done(request: Request, file: int) -> tuple[dict[str, Any], str]:
    """The fields of the reply, and what was printed. What the code sets in its context, and its filters of warnings,
    end with it."""
    output = Output(file)
    with_wholes(request.args, request.loops, request.tables)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), warnings.catch_warnings():
        done = contextvars.copy_context().run(run, request.code, request.args, request.libs)
    return done, output.text()


if __name__ == "__main__":
    main()
