"""Pipelined publishes: one inbox receives every answer, one sweep finds those that never came.

    answer                                   the future
    {"seq": n}                               n
    an error                                 what `codes` says, after asking again where it may pass
    permissions violation (out of band)      Refused
    503 no responders                        Unavailable
    none in time, or the connection broke    Unknown
"""

import asyncio
from asyncio import Future
from collections.abc import Callable

import msgspec
from msgspec import Struct

from shared.bus.codes import RETRIES, RETRY_S, ApiError, error_of, is_passing
from shared.bus.subject import check_subject
from shared.bus.wire import Connection, header_block, number, pub, status_of
from shared.errors import NoetlError, Refused, Unavailable, Unknown
from shared.events.headers import EXPECTED_LAST

ANSWER_S = 5.0
SWEEP_S = 0.5
NOBODY_S = (0.02, 0.05, 0.1, 0.2)  # pauses before it is sent again
_EXPECTED = f"NATS/1.0\r\n{EXPECTED_LAST}: %d\r\n\r\n".encode()


class Nobody(Unavailable):
    """Nobody listened, so the message was not stored. A server that reloads its configuration answers so too, for a
    moment."""


class _Ack(Struct, gc=False):
    seq: int = 0
    error: ApiError | None = None


class _Sent(Struct):
    """A publish that waits for its answer."""

    future: "Future[int]"
    subject: str
    command: bytes
    expected: int
    due: float
    tries: int = 0


_decode = msgspec.json.Decoder(_Ack).decode


class Publisher:
    def __init__(self, connection: Connection, inbox: str) -> None:
        self._connection = connection
        self._prefix = inbox + "."
        self._cut = len(self._prefix)
        self._waiting: dict[int, _Sent] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._online = asyncio.Event()

    async def start(self) -> None:
        await self._connection.route(self._prefix + "*", self._answered)
        self._online.set()

    def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.disconnected()

    async def send(
        self, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None,
        is_other: Callable[[], bool] | None = None,
    ) -> "Future[int]":
        """`is_other` says whether the connection is not the one it is meant for; nothing is waited for between
        asking and writing."""
        connection = self._connection
        future: Future[int] = self._loop.create_future()
        if not connection.is_connected and not await self.online(ANSWER_S):
            future.set_exception(Unavailable(f"no connection to publish {subject}"))
            return future
        if is_other is not None and is_other():
            future.set_exception(Unavailable(f"{subject} was meant for a connection that is over"))
            return future
        self._count = token = self._count + 1
        check_subject(subject)
        header = b"" if expected is None else _EXPECTED % expected
        if headers:
            header = header_block(headers)[:-2] + (header[10:] or b"\r\n")
        connection.check_size(subject, len(header) + len(data))
        command = pub(subject, f"{self._prefix}{token}", data, header)
        self._waiting[token] = _Sent(
            future, subject, command, -1 if expected is None else expected, self._loop.time() + ANSWER_S
        )
        connection.write(command)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        if connection.congested:
            await connection.relieve()
        return future

    async def online(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._online.wait()
        except TimeoutError:
            return False
        return True

    def connected(self) -> None:
        self._online.set()

    def disconnected(self) -> None:
        """What was on its way may or may not have arrived."""
        self._online.clear()
        waiting, self._waiting = self._waiting, {}
        for sent in waiting.values():
            _fail(sent, Unknown(f"the connection broke before {sent.subject} was confirmed"))

    def _answered(self, subject: bytes, _reply: bytes, header: bytes, data: bytes) -> None:
        token = number(subject[self._cut :])
        sent = self._waiting.pop(token, None)
        if sent is None or sent.future.done():
            return
        if header and status_of(header) == 503:
            _fail(sent, Nobody(f"no stream takes {sent.subject}"))
            return
        try:
            ack = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            _fail(sent, Unknown(f"an answer that cannot be read for {sent.subject}: {error}"))
            return
        if ack.error is None:
            sent.future.set_result(ack.seq)
        elif sent.tries < RETRIES and is_passing(ack.error, sent.expected):
            self._waiting[token] = sent
            self._loop.call_later(RETRY_S * 2**sent.tries, self._again, token, sent)
            sent.tries += 1
        else:
            _fail(sent, error_of(ack.error, sent.subject))

    def _again(self, token: int, sent: _Sent) -> None:
        if self._waiting.get(token) is sent:
            self._connection.write(sent.command)

    def violation(self, subject: str) -> None:
        """The broker drops a forbidden publish and says so out of band, naming only the subject."""
        for token in [t for t, sent in self._waiting.items() if sent.subject == subject]:
            _fail(self._waiting.pop(token), Refused(f"not allowed to publish {subject}"))

    def _sweep(self) -> None:
        now = self._loop.time()
        late = []
        for token, sent in self._waiting.items():
            if sent.due > now:
                break  # in order of sending, and all wait equally long
            late.append(token)
        for token in late:
            sent = self._waiting.pop(token)
            _fail(sent, Unknown(f"no answer for {sent.subject} in {ANSWER_S} s"))
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep) if self._waiting else None


def _fail(sent: _Sent, error: NoetlError) -> None:
    if not sent.future.done():
        sent.future.set_exception(error)
        sent.future.exception()  # a caller that has gone away is not an unhandled error
