"""Lines that someone types, or that a pipe holds, without blocking what runs meanwhile."""

import asyncio
import os
import sys
from collections import deque

CHUNK = 65_536


class Typed:
    """On a terminal the loop keeps running while it waits; a pipe is read as it is."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._rest = b""

    async def line(self) -> str | None:
        """The next one; None at the end."""
        if not sys.stdin.isatty():
            return sys.stdin.readline() or None
        while not self._lines:
            data = await _read(sys.stdin.fileno())
            if not data:
                return None
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(line.decode(errors="replace") for line in whole)
        return self._lines.popleft()


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, CHUNK)
