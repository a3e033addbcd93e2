"""The connection: nats-py keeps it (dialling, TLS, reconnecting, re-subscribing), our own parser and
write buffer carry the messages.

nats-py awaits several coroutines per message and copies its buffer for each; here a message goes from
the read buffer to a plain function.

1. A subject, a header and a reply are bytes that anyone may have chosen: the broker checks none of them. `text` is the
   only way from them to a string, and it never raises. What is not UTF-8 is shown as escapes, which no rule of ours
   takes for a name: it is refused where any other wrong name is, and can be told.
2. The server ends the parts of a line by a space. Other white space may be part of a subject.
3. Handlers run inside the read loop and must not block. If one raises, that concerns its message: nothing leaves the
   loop, since a connection that breaks at a stored message breaks at it again, for ever. The message is not forgotten
   in silence: the log says so, and whoever must not lack one (a follower) ends itself by that.
4. A number in a line that is none means that this is not the broker's protocol: then the connection ends.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from ssl import SSLContext
from typing import Any
from urllib.parse import ParseResult

import structlog

from shared.bus.nats_py import Client, Error, ProtocolError, Subscription, TcpTransport, Transport
from shared.bus.subject import MAX_LINE, MAX_SHOWN
from shared.errors import Corrupt, Refused, Unavailable
from shared.events.headers import EXPECTED_LAST

Handler = Callable[[bytes, bytes, bytes, bytes], None]
"""Takes (subject, reply, header, payload); header is empty when there is none."""

DRAIN_BYTES = 1 << 20
SIZES = 32  # bytes of a line for its verb and the two sizes
FLUSH_S = 2
MAX_DIGITS = 19  # of a number of 64 bits
log = structlog.get_logger()
_LINE = re.compile(r"[^\r\n\x00\ud800-\udfff]*")
_M, _H, _P, _PLUS, _MINUS, _I = b"MHP+-I"


@contextmanager
def _lost() -> Iterator[None]:
    """uvloop says by a RuntimeError that a socket is closed; nats-py and we go by OSError."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionResetError(str(error)) from None


class _Transport(TcpTransport):
    """What a connection that was reset under it does to a writer is an OSError on every event loop."""

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        """One is used for every try, and nats-py leaves the socket of a try that failed to the collector."""
        self.abandon()
        await super().connect(uri, buffer_size, connect_timeout)

    def abandon(self) -> None:
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()
        self._io_reader = self._io_writer = self._bare_io_reader = self._bare_io_writer = None

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: SSLContext, buffer_size: int, connect_timeout: int
    ) -> None:
        """As nats-py does it, and two things more: the reader knows its transport, so that it can slow it down, and
        what a failed handshake leaves is dropped: nats-py would wait for its end, of which nobody hears."""
        assert self._bare_io_writer is not None, "connect first"
        reader = asyncio.StreamReader(limit=buffer_size)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop, bare = asyncio.get_running_loop(), self._bare_io_writer.transport
        self._io_reader = self._io_writer = None
        try:
            async with asyncio.timeout(connect_timeout):
                name = uri if isinstance(uri, str) else uri.hostname
                made = await loop.start_tls(bare, protocol, ssl_context, server_hostname=name)
        except BaseException:
            bare.abort()
            raise
        if made is None:  # the loop's word for a connection that ended meanwhile
            raise ConnectionResetError("the connection ended during the TLS handshake")
        protocol.connection_made(made)
        self._io_reader, self._io_writer = reader, asyncio.StreamWriter(made, protocol, reader, loop)

    def write(self, payload: bytes) -> None:
        with _lost():
            super().write(payload)  # type: ignore[no-untyped-call]  # of nats-py

    def writelines(self, payload: list[bytes]) -> None:
        with _lost():
            super().writelines(payload)  # type: ignore[no-untyped-call]

    async def drain(self) -> None:
        with _lost():
            await super().drain()  # type: ignore[no-untyped-call]


class Connection(Client):
    """`routes` maps a subscription id to the function that handles its messages."""

    def __init__(self) -> None:
        self._own: Transport | None = None
        super().__init__()
        self.routes: dict[bytes, Handler] = {}
        self.on_violation: Callable[[str], None] = lambda _: None
        self._ps = _Parser(self)  # type: ignore[assignment]  # same two methods, other internals
        self._undrained = 0
        self._flush_due = False

    @property
    def _transport(self) -> Transport | None:
        return self._own

    @_transport.setter
    def _transport(self, made: Transport | None) -> None:
        """nats-py makes one for each try to connect, and only then opens it."""
        self._own = _Transport() if type(made) is TcpTransport else made  # type: ignore[no-untyped-call]

    @property
    def is_clustered(self) -> bool:
        """The server is one of several: a stream may have replicas."""
        return bool(self._server_info.get("cluster"))

    async def route(self, subject: str, handler: Handler, group: str = "") -> Subscription:
        self.routes[b"%d" % (self._sid + 1)] = handler
        return await self.subscribe(subject, group)

    async def unroute(self, subscription: Subscription, *, finish: bool = False) -> None:
        """With `finish`, what the broker had sent before it knew is still handled."""
        if not self.is_closed:
            await subscription.unsubscribe()
        if finish and self.is_connected:
            with suppress(Error, TimeoutError, OSError):
                await self.flush(FLUSH_S)
        self.routes.pop(b"%d" % subscription._id, None)

    def forget(self, subscription: Subscription) -> None:
        """When the connection broke: the next one does not know of it."""
        self._remove_sub(subscription._id)
        self.routes.pop(b"%d" % subscription._id, None)

    async def close(self) -> None:
        """Also when the peer went away unnoticed: what was still to be sent to it is dropped."""
        try:
            await super().close()
        except OSError:
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]  # of nats-py
        if isinstance(self._transport, _Transport):
            self._transport.abandon()

    async def _process_connect_init(self) -> None:
        """A server that reads its configuration again may end a connection instead of answering; nats-py does not look,
        and would leave it as it is for ever, neither open nor tried again."""
        await super()._process_connect_init()
        if not self.is_connected:
            for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
                if task is not None:
                    task.cancel()
            raise ConnectionResetError("the server ended the connection and did not say why")

    async def _process_op_err(self, e: Exception) -> None:
        """Does not wait for what the socket has not sent: a peer that has gone silent never reads it."""
        if isinstance(self._transport, TcpTransport) and self._transport._bare_io_writer is not None:
            self._transport._bare_io_writer.transport.abort()
        await super()._process_op_err(e)

    def check_size(self, subject: str, size: int) -> None:
        """Of headers and data together: the server ends a connection that sends more."""
        if size > self._max_payload:
            raise Refused(f"{size} bytes on {subject[:MAX_SHOWN]}: the broker takes {self._max_payload}")

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
        try:
            self._transport.write(b"".join(self._pending))
        except OSError:  # its reader ends the connection
            self.forget_unsent()
            return
        self._undrained += self._pending_data_size
        self._pending = []
        self._pending_data_size = 0

    @property
    def congested(self) -> bool:
        return self._undrained + self._pending_data_size > DRAIN_BYTES

    async def relieve(self) -> None:
        """Waits until the socket has accepted what was written: the bound on our write buffer."""
        self._flush_now()
        self._undrained = 0
        if self._transport is not None and self._status == Client.CONNECTED:
            try:
                await self._transport.drain()  # type: ignore[no-untyped-call]
            except OSError as error:
                raise Unavailable(f"connection lost: {error}") from None

    def forget_unsent(self) -> None:
        """A publish must not be applied long after its caller has learned that its fate is unknown."""
        self._pending = []
        self._pending_data_size = 0
        self._undrained = 0


def pub(subject: str, reply: str, data: bytes, header: bytes = b"") -> bytes:
    line = (f"{subject} {reply}" if reply else subject).encode()
    if len(line) > MAX_LINE - SIZES:
        raise Refused(f"a subject and an inbox of {len(line)} bytes, over the broker's limit: {subject[:MAX_SHOWN]!r}…")
    if not header:
        return b"PUB %b %d\r\n%b\r\n" % (line, len(data), data)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (line, len(header), len(header) + len(data), header, data)


def header_block(headers: dict[str, str]) -> bytes:
    lines = ["NATS/1.0"]
    for key, value in headers.items():
        if not (_LINE.fullmatch(key) and _LINE.fullmatch(value)) or ":" in key or not key:
            raise Refused(f"not a header: {key[:MAX_SHOWN]!r}")
        lines.append(f"{key}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def text(raw: bytes) -> str:
    """What is not UTF-8, as Python would write it: `\\xff`."""
    return raw.decode(errors="backslashreplace")


def number(word: str | bytes, otherwise: int = 0) -> int:
    """A whole number of few digits, as the broker writes them."""
    return int(word) if len(word) <= MAX_DIGITS and word.isascii() and word.isdigit() else otherwise


def parse_headers(block: bytes) -> dict[str, str] | None:
    """The last value of a repeated key wins."""
    lines = text(block).split("\r\n")
    pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs} or None


_EXPECTED_ONLY = f"NATS/1.0\r\n{EXPECTED_LAST}: ".encode()


def stored_headers(block: bytes) -> dict[str, str] | None:
    """The headers of a stored message; a record usually carries its expected sequence and no other."""
    if not block or (block.startswith(_EXPECTED_ONLY) and block.count(b"\n") == 3):
        return None
    return parse_headers(block)


def nanoseconds(rfc3339: str) -> int:
    """`2026-01-02T03:04:05.123456789Z` in ns since the epoch; nothing is rounded away. Corrupt if it is no time."""
    moment, _, fraction = rfc3339.removesuffix("Z").partition(".")
    try:
        return _second(moment) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
    except (ValueError, OverflowError):
        raise Corrupt(f"not a time: {rfc3339[:MAX_SHOWN]!r}") from None


@lru_cache(maxsize=1024)
def _second(moment: str) -> int:
    return int(datetime.fromisoformat(moment + "+00:00").timestamp())


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
            parts = buf[position:eol].split(b" ")
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
            try:
                if handler is not None:
                    handler(parts[1], reply, header, buf[body:stop])
                else:
                    await connection._process_msg(int(parts[2]), parts[1], reply, buf[body:stop], header)
            except Exception:  # rule 3
                log.exception("bus.unhandled", subject=text(parts[1][:MAX_SHOWN]), sid=text(parts[2]))

    async def _control(self, kind: int, line: bytes) -> None:
        connection = self._connection
        if kind == _P:
            await (connection._process_ping() if line.startswith(b"PI") else connection._process_pong())
        elif kind == _MINUS:
            said = text(line[4:].strip())
            if "permissions violation" in said.lower():
                connection.on_violation(said)
            else:  # nats-py would close for good on most of them; a service wants its connection back
                await connection._process_op_err(Error(said))
        elif kind == _I:
            info: dict[str, Any] = json.loads(line[4:])
            await connection._process_info(info)
        elif kind != _PLUS:
            raise ProtocolError(f"unknown protocol line {line[:40]!r}")
