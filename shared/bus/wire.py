"""The connection: nats-py keeps it (dialling, TLS, reconnecting, re-subscribing), our own parser and
write buffer carry the messages.

nats-py awaits several coroutines per message and copies its buffer for each; here a message goes from
the read buffer to a plain function. Handlers run inside the read loop: they must not block or raise.
"""

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error, ProtocolError

from shared.errors import Refused, Unavailable

Handler = Callable[[bytes, bytes, bytes, bytes], None]
"""Takes (subject, reply, header, payload); header is empty when there is none."""

DRAIN_BYTES = 1 << 20
FLUSH_S = 2
_LINE = re.compile(r"[^\r\n]*")
_M, _H, _P, _PLUS, _MINUS, _I = b"MHP+-I"


class Connection(Client):
    """`routes` maps a subscription id to the function that takes its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[bytes, Handler] = {}
        self.on_violation: Callable[[str], None] = lambda _: None
        self._ps = _Parser(self)  # type: ignore[assignment]  # same two methods, other internals
        self._undrained = 0
        self._flush_due = False

    async def route(self, subject: str, handler: Handler) -> Subscription:
        self.routes[b"%d" % (self._sid + 1)] = handler
        return await self.subscribe(subject)

    async def unroute(self, subscription: Subscription, *, finish: bool = False) -> None:
        """With `finish`, what the broker had sent before it knew is still handled."""
        if not self.is_closed:
            await subscription.unsubscribe()
        if finish and self.is_connected:
            with suppress(Error, TimeoutError):
                await self.flush(FLUSH_S)
        self.routes.pop(b"%d" % subscription._id, None)

    def write(self, command: bytes) -> None:
        """Everything written in one turn of the event loop leaves in one system call."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        if self._status != Client.CONNECTED or not self._pending or self._transport is None:
            return
        self._transport.write(b"".join(self._pending))
        self._undrained += self._pending_data_size
        self._pending = []
        self._pending_data_size = 0

    @property
    def congested(self) -> bool:
        return self._undrained + self._pending_data_size > DRAIN_BYTES

    async def relieve(self) -> None:
        """Waits until the socket has taken what was written: the bound on our write buffer."""
        self._flush_now()
        self._undrained = 0
        if self._transport is not None and self._status == Client.CONNECTED:
            try:
                await self._transport.drain()  # type: ignore[no-untyped-call]
            except OSError as error:
                raise Unavailable(f"connection lost: {error}") from None

    def forget_unsent(self) -> None:
        """A publish must not be applied long after its caller was told that it is unknown."""
        self._pending = []
        self._pending_data_size = 0
        self._undrained = 0


def pub(subject: str, reply: str, data: bytes, header: bytes = b"") -> bytes:
    line = f"{subject} {reply}" if reply else subject
    if not header:
        return b"PUB %b %d\r\n%b\r\n" % (line.encode(), len(data), data)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (line.encode(), len(header), len(header) + len(data), header, data)


def header_block(headers: dict[str, str]) -> bytes:
    lines = ["NATS/1.0"]
    for key, value in headers.items():
        if not (_LINE.fullmatch(key) and _LINE.fullmatch(value)) or ":" in key or not key:
            raise Refused(f"not a header: {key!r}")
        lines.append(f"{key}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def parse_headers(block: bytes) -> dict[str, str] | None:
    """The last value of a repeated key wins."""
    lines = block.decode(errors="replace").split("\r\n")
    pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs} or None


_EXPECTED_ONLY = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: "


def stored_headers(block: bytes) -> dict[str, str] | None:
    """The headers of a stored message; a record usually carries its expected sequence and no other."""
    if not block or (block.startswith(_EXPECTED_ONLY) and block.count(b"\n") == 3):
        return None
    return parse_headers(block)


def status_of(block: bytes) -> int:
    """The code of a status message (`NATS/1.0 404 …`), 0 for an ordinary one."""
    code = block[9:12]
    return int(code) if code.isdigit() else 0


class _Parser:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.reset()

    def reset(self) -> None:
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 0

    async def parse(self, data: bytes = b"") -> None:
        """Messages of routed subscriptions are handled here and now; the rest is left to nats-py."""
        if self._held:
            self._chunks.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return
            data = b"".join(self._chunks)
        chunks = self._chunks
        used = await self._consume(data)
        if self._chunks is not chunks:
            return  # a disconnect was handled meanwhile: what is left belongs to the old socket
        rest = data[used:]
        self._chunks, self._held = ([rest], len(rest)) if rest else ([], 0)

    async def _consume(self, buf: bytes) -> int:
        position, end = 0, len(buf)
        find, routes, connection = buf.find, self._connection.routes, self._connection
        while True:
            eol = find(b"\r\n", position)
            if eol < 0:
                self._needed = 0
                return position
            kind = buf[position]
            if kind != _M and kind != _H:
                await self._control(kind, buf[position:eol])
                position = eol + 2
                continue
            parts = buf[position:eol].split()
            start = eol + 2
            stop = start + int(parts[-1])
            if stop + 2 > end:
                self._needed = stop + 2 - position
                return position
            position = stop + 2
            body, header = start, b""
            if kind == _H:
                body = start + int(parts[-2])
                header = buf[start:body]
            reply = parts[3] if len(parts) == (5 if kind == _M else 6) else b""
            handler = routes.get(parts[2])
            if handler is not None:
                handler(parts[1], reply, header, buf[body:stop])
            else:
                await connection._process_msg(int(parts[2]), parts[1], reply, buf[body:stop], header)

    async def _control(self, kind: int, line: bytes) -> None:
        connection = self._connection
        if kind == _P:
            await (connection._process_ping() if line.startswith(b"PI") else connection._process_pong())
        elif kind == _MINUS:
            text = line[4:].strip().decode(errors="replace")
            if "permissions violation" in text.lower():
                connection.on_violation(text)
            else:  # nats-py would close for good on most of them; a service wants its connection back
                await connection._process_op_err(Error(text))
        elif kind == _I:
            info: dict[str, Any] = json.loads(line[4:])
            await connection._process_info(info)
        elif kind != _PLUS:
            raise ProtocolError(f"unknown protocol line {line[:40]!r}")
