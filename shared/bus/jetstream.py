"""The bus over NATS JetStream. `connect` opens it; every promise of `ports.Bus` is kept here or in
the part it hands over to: publisher, follow, consume, read."""

import asyncio
import re
import time
from asyncio import Future
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlparse
from weakref import WeakSet

import nats.errors
import structlog
from nats.aio.subscription import Subscription

from shared.bus import kv
from shared.bus.consume import QueueConsumer
from shared.bus.follow import LazyFollower, StreamFollower
from shared.bus.ports import Entry, Message
from shared.bus.publisher import NOBODY_S, Nobody, Publisher
from shared.bus.read import Reader
from shared.bus.request import Requests
from shared.bus.subject import check_subject
from shared.bus.wire import Connection, parse_headers, pub
from shared.errors import Conflict, Refused, Unavailable

CONNECT_S = 10.0
PING_S = 5
RECONNECT_S = 0.2
MAX_INBOX = 4096  # unread core messages of one subscription; the oldest are dropped
_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)
log = structlog.get_logger()


async def connect(
    url: str, *, user: str = "", password: str = "", name: str = "", inbox_prefix: str | None = None
) -> "JetStreamBus":
    """Raises Refused for bad credentials and Unavailable when nobody answers in time. The inbox prefix
    follows from the user, because a user may read only its own inboxes."""
    bus = JetStreamBus(Connection())
    parsed = urlparse(url)
    known, bare = user or parsed.username, f"{parsed.hostname}:{parsed.port}"  # no password in a message
    prefix = inbox_prefix or (f"_INBOX_{known}" if known else "_INBOX")
    try:
        async with asyncio.timeout(CONNECT_S):
            await bus.open(url, user, password, name, prefix)
    except TimeoutError:
        await bus.close()
        raise Unavailable(f"no answer from {bare} in {CONNECT_S} s") from None
    except (nats.errors.Error, OSError) as error:
        await bus.close()
        raise Unavailable(f"cannot connect to {bare}: {error}") from None
    except (Refused, asyncio.CancelledError):
        await bus.close()
        raise
    return bus


class JetStreamBus:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pullers: WeakSet[StreamFollower | QueueConsumer] = WeakSet()  # open ones are held by their routes
        self._opened = False
        self.connections = 1

    async def open(self, url: str, user: str, password: str, name: str, inbox_prefix: str) -> None:
        connection = self.connection
        connection.on_violation = self._violation
        await connection.connect(
            url,
            user=user or None,
            password=password or None,
            name=name or None,
            inbox_prefix=inbox_prefix,
            ping_interval=PING_S,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # a float works
            allow_reconnect=True,
            error_cb=self._error,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
        )
        self.requests = Requests(connection, connection.new_inbox())
        self._publisher = Publisher(connection, connection.new_inbox())
        self._reader = Reader(self.requests)
        await self.requests.start()
        await self._publisher.start()
        self._opened = True

    async def close(self) -> None:
        for puller in list(self._pullers):
            await puller.close()
        if self._opened:
            self._publisher.stop()
            self.requests.disconnected()
        await self.connection.close()

    # The log

    async def send(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> "Future[int]":
        return await self._publisher.send(subject, data, expected, headers)

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        for pause in NOBODY_S:
            try:
                return await (await self._publisher.send(subject, data, expected, headers))
            except Nobody:
                await asyncio.sleep(pause)
        return await (await self._publisher.send(subject, data, expected, headers))

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> StreamFollower:
        inbox = self.connection.new_inbox()
        kind = LazyFollower if lazy else StreamFollower
        follower = kind(self.connection, self.requests, inbox, stream, filters, after)
        self._pullers.add(follower)
        return follower

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        return await self._reader.read(stream, filters, after)

    async def get(self, stream: str, subject: str) -> Message | None:
        return await self._reader.last(stream, subject)

    async def last_seq(self, stream: str) -> int:
        return int((await self._info(stream))["state"]["last_seq"])

    async def created(self, stream: str) -> int:
        return nanoseconds((await self._info(stream))["created"])

    async def purge(self, stream: str, subject: str) -> None:
        await self.requests.api(f"STREAM.PURGE.{stream}", {"filter": subject})

    async def _info(self, stream: str) -> dict[str, Any]:
        return await self.requests.api(f"STREAM.INFO.{stream}")

    # The queue

    async def consume(self, stream: str, durable: str, prefetch: int) -> QueueConsumer:
        inbox = self.connection.new_inbox()
        consumer = QueueConsumer(self.connection, time.monotonic, inbox, stream, durable, prefetch)
        await consumer.start()
        self._pullers.add(consumer)
        return consumer

    # Buckets

    async def kv_get(self, bucket: str, key: str) -> Entry | None:
        found = await self.get(kv.stream_of(bucket), kv.subject_of(bucket, key))
        return None if found is None or kv.is_deleted(found.headers) else Entry(found.data, found.seq)

    async def kv_put(self, bucket: str, key: str, value: bytes, *, expected: int | None = None) -> int:
        subject = kv.subject_of(bucket, key)
        try:
            return await self.append(subject, value, expected=expected)
        except Conflict:
            if expected != 0:
                raise
        found = await self.get(kv.stream_of(bucket), subject)
        if found is None or not kv.is_deleted(found.headers):
            raise Conflict(f"{subject} exists")
        return await self.append(subject, value, expected=found.seq)  # over the mark of its deletion

    async def kv_delete(self, bucket: str, key: str) -> None:
        await self.append(kv.subject_of(bucket, key), b"", headers={kv.OPERATION: "DEL"})

    async def kv_all(self, bucket: str) -> dict[str, bytes]:
        return kv.entries(bucket, await self.read(kv.stream_of(bucket), [f"$KV.{bucket}.>"]))

    # Core messages

    async def publish(self, subject: str, data: bytes) -> None:
        """While disconnected it is dropped: at most once."""
        if self.connection.is_connected:
            self.connection.write(pub(check_subject(subject), "", data))

    async def subscribe(self, subject: str) -> "CoreInbox":
        inbox = CoreInbox(self.connection)
        await inbox.open(subject)
        return inbox

    # What the connection reports

    async def _error(self, error: Exception) -> None:
        """While connecting, wrong credentials end it: nats-py would try them again for ever."""
        if not self._opened and "authorization violation" in str(error).lower():
            raise Refused("the broker does not know this user or password")
        log.debug("bus.error", error=repr(error))

    def _violation(self, text: str) -> None:
        log.warning("bus.refused", text=text)
        found = _VIOLATION.search(text)
        if found is not None and self._opened:
            self._publisher.violation(found[1])
            self.requests.violation(found[1])

    async def _disconnected(self) -> None:
        self.connections += 1
        self.connection.forget_unsent()
        if self._opened:
            self._publisher.disconnected()
            self.requests.disconnected()

    async def _reconnected(self) -> None:
        self.connections += 1
        self._publisher.connected()
        for puller in self._pullers:
            puller.reconnected()


class CoreInbox:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[tuple[bytes, bytes, bytes]] = asyncio.Queue()
        self._subscription: Subscription | None = None

    async def open(self, subject: str) -> None:
        self._subscription = await self._connection.route(check_subject(subject), self._arrived)

    def _arrived(self, subject: bytes, _reply: bytes, header: bytes, data: bytes) -> None:
        if self._queue.qsize() >= MAX_INBOX:
            self._queue.get_nowait()
        self._queue.put_nowait((subject, header, data))

    async def next(self) -> bytes:
        return (await self._queue.get())[2]

    async def message(self) -> Message:
        subject, header, data = await self._queue.get()
        return Message(subject.decode(), data, 0, parse_headers(header) if header else None)

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.unroute(subscription)


def nanoseconds(rfc3339: str) -> int:
    """`2026-01-02T03:04:05.123456789Z` in nanoseconds since the epoch; nothing is rounded away."""
    text, _, fraction = rfc3339.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(text + "+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
