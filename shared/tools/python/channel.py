"""The worker's end of the socket to a child of `kind: python`: one frame out, one frame back."""

import asyncio
from collections.abc import Callable
from typing import cast

from shared.tools.python.child import FRAME_LIMIT, HEADER


class Channel(asyncio.Protocol):
    """`exchange` raises ConnectionError when the other end is gone, or says more than it may."""

    def __init__(self, strange: Callable[[], None]) -> None:
        """`strange` is called when something comes that nobody has asked for."""
        self._strange = strange
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._lost = False

    @property
    def quiet(self) -> bool:
        """Open, and nothing has come that nobody has asked for."""
        return not self._lost and not self._buffer

    async def exchange(self, data: bytes) -> bytes:
        if not self.quiet or self._transport is None:
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(HEADER.pack(len(data)) + data)
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answer is None:
            self._strange()
        if len(self._buffer) < HEADER.size:
            return
        end = HEADER.size + int(HEADER.unpack_from(self._buffer)[0])
        if end > HEADER.size + FRAME_LIMIT:
            self.close()
        elif len(self._buffer) >= end and self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(self._buffer[HEADER.size:end]))
            del self._buffer[:end]

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())
