"""A child process of `kind: python`: reads requests from a socket, runs them, answers. Started as
`python -m shared.tools.python_child <socket fd> <lifeline fd>`; user code never runs in a worker."""

import contextlib
import io
import os
import signal
import socket
import struct
import sys
import threading
from typing import Any

import msgspec

from shared.tools.python_code import run

HEADER = struct.Struct(">I")
FRAME_LIMIT = 33 * 1024 * 1024   # a result at its limit, and what goes with it
OUTPUT_LIMIT = 64 * 1024


class Request(msgspec.Struct, frozen=True):
    code: str
    args: dict[str, Any]
    libs: dict[str, str]


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`error` None: `result` is the value. `kind` is the error's."""

    result: Any = None
    error: str | None = None
    kind: str = ""
    exception_type: str | None = None
    traceback: str = ""
    stdout: str = ""


class Output(io.TextIOBase):
    """What user code prints, up to a limit; the rest is counted and dropped."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.room = OUTPUT_LIMIT
        self.dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: max(self.room, 0)]
        if kept:
            self.parts.append(kept)
            self.room -= len(kept)
        self.dropped += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        note = f"\n… {self.dropped} more characters" if self.dropped else ""
        return "".join(self.parts) + note


def main() -> None:
    ours, lifeline = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(ours, False)
    os.set_inheritable(lifeline, False)
    channel = socket.socket(fileno=ours)
    channel.setblocking(True)
    threading.Thread(target=_die_with_worker, args=(lifeline,), daemon=True).start()
    decoder = msgspec.json.Decoder(Request)
    encoder = msgspec.json.Encoder()
    stream = channel.makefile("rb", buffering=64 * 1024)
    while header := stream.read(HEADER.size):
        request = decoder.decode(stream.read(HEADER.unpack(header)[0]))
        reply = encoder.encode(_answer(request))
        channel.sendall(HEADER.pack(len(reply)) + reply)


def _answer(request: Request) -> Reply:
    output = Output()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        done = run(request.code, request.args, request.libs)
    output.write(_written_below())
    return Reply(**done, stdout=output.text())


def _written_below() -> str:
    """What went to the file descriptors themselves: other programs, C libraries."""
    size = os.fstat(1).st_size
    if not size:
        return ""
    text = os.pread(1, OUTPUT_LIMIT, 0).decode("utf-8", "replace")
    os.ftruncate(1, 0)
    return text


def _die_with_worker(lifeline: int) -> None:
    """The other end is open as long as the worker lives, however it ends."""
    with contextlib.suppress(OSError):
        while os.read(lifeline, 1):
            pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
