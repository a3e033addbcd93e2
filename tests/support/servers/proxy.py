"""A TCP proxy between one client and its server: it cuts connections, or keeps bytes back, one way or both ways."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"
RST = struct.pack("ii", 1, 0)  # linger for no time: a close is a reset
DIAL_S = 2.0


class Proxy:
    """Each new connection goes to the next server of `ports` that takes it."""

    def __init__(self, *ports: int) -> None:
        self.targets = ports
        self.refuses = False
        self.port = 0
        self.accepted = 0
        self.upward = self.downward = True  # whether bytes pass to the server, and to the client
        self._links: set[_Link] = set()
        self._next = 0
        self._dialling: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    async def start(self, port: int = 0) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        await asyncio.gather(*self._dialling, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def reset(self) -> int:
        """Both ends of every connection hear that it is gone; how many there were."""
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._links)

    def silence(self, *, up: bool = True, down: bool = True, new: bool = True) -> None:
        """Nothing passes from now on and nobody is told; new connections are accepted and hear nothing, unless they are
        left out."""
        if new:
            self.upward, self.downward = not up and self.upward, not down and self.downward
        for link in self._links:
            link.flow(upward=not up and link.upward, downward=not down and link.downward)

    def refuse(self) -> None:
        """Every connection is reset, and every new one too."""
        self.refuses = True
        self.reset()

    def heal(self) -> None:
        """What was kept back arrives now, late, and connections are taken again."""
        self.refuses = False
        self.upward = self.downward = True
        for link in self._links:
            link.flow(upward=True, downward=True)

    async def dial(self, client: "_Client") -> None:
        loop = asyncio.get_running_loop()
        for _ in self.targets:
            port = self.targets[self._next % len(self.targets)]
            self._next += 1
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(DIAL_S):
                    _, server = await loop.create_connection(lambda: _Server(self), HOST, port)
                client.join(server)
                return
        client.abort()

    def connect(self, client: "_Client") -> None:
        self.accepted += 1
        if self.refuses:
            client.abort()
            return
        task = asyncio.get_running_loop().create_task(self.dial(client))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def add(self, link: "_Link") -> None:
        self._links.add(link)
        link.flow(upward=self.upward, downward=self.downward)

    def forget(self, link: "_Link") -> None:
        self._links.discard(link)


class _End(asyncio.Protocol):
    """One end of a connection; what it hears goes to the other."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.transport: asyncio.Transport | None = None
        self.link: _Link | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self.link is not None:
            self.link.pass_on(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.link is not None:
            self.link.cut()

    def abort(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            self.transport.abort()

    def listen(self, wanted: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()


class _Client(_End):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.listen(wanted=False)
        self.proxy.connect(self)

    def join(self, server: "_Server") -> None:
        self.link = server.link = _Link(self, server)
        if self.transport is None or self.transport.is_closing():
            self.link.cut()
        else:
            self.proxy.add(self.link)


class _Server(_End):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.listen(wanted=False)


class _Link:
    def __init__(self, client: _Client, server: _Server) -> None:
        self.client, self.server = client, server
        self.upward = self.downward = True

    def pass_on(self, source: _End, data: bytes) -> None:
        target: _End = self.server if source is self.client else self.client
        assert target.transport is not None
        target.transport.write(data)

    def flow(self, *, upward: bool, downward: bool) -> None:
        self.upward, self.downward = upward, downward
        self.client.listen(upward)
        self.server.listen(downward)

    def cut(self) -> None:
        self.client.proxy.forget(self)
        self.client.abort()
        self.server.abort()
