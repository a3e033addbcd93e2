"""The bus over NATS JetStream. `connect` opens it; every promise of `ports.Bus` is kept here or in
the part it hands over to: publisher, follow, consume, read."""

import asyncio
import re
import time
from asyncio import Future
from base64 import b64decode
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlparse
from weakref import WeakSet

import structlog

from shared.bus import api, kv
from shared.bus.api_requests import Requests
from shared.bus.broker_time import Timekeeper
from shared.bus.codes import NoMessage, NotFound
from shared.bus.direct_reader import Reader
from shared.bus.login.connection import LoginConnection
from shared.bus.login.faults import explain, hint
from shared.bus.login.files import NO_FILES, LoginFiles
from shared.bus.nats_py import Error, Subscription
from shared.bus.polling_follower import LaggingFollower
from shared.bus.ports import ConsumerState, Entry, Message, Storage, StreamState
from shared.bus.publisher import NOBODY_S, Nobody, Publisher
from shared.bus.queue_consumer import QueueConsumer
from shared.bus.replicas import ReplicaReader
from shared.bus.stream_follower import StreamFollower
from shared.bus.subject import check_subject
from shared.bus.wire import Connection, nanoseconds, parse_headers, pub, text
from shared.errors import Conflict, Refused, Unavailable
from shared.events import subjects
from shared.events.headers import KV_OPERATION

REFUSED_S = 1.5  # by a server that answers: then the credentials are wrong
CONNECT_S = 10.0
SERVER_S = 2.0
PING_S, PINGS = 3, 2  # a connection on which nothing is heard is replaced after 6 to 9 s
RECONNECT_S = 0.2
MAX_INBOX = 4096  # unread core messages of one subscription; the oldest are dropped
_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)
log = structlog.get_logger()


async def connect(
    url: str, *, user: str = "", password: str = "", name: str = "", inbox_prefix: str | None = None,
    within_s: float = CONNECT_S, files: LoginFiles = NO_FILES,
) -> "JetStreamBus":
    """Raises Refused for bad credentials and Unavailable when nobody answers within `within_s`. The inbox prefix
    follows from the user unless given, because a user may read only its own inboxes. `url` may be several, separated
    by commas; one that says `tls://` says it for all."""
    parsed = [urlparse(one.strip()) for one in url.split(",")]
    bus = JetStreamBus(LoginConnection(files, wants_tls=any(one.scheme == "tls" for one in parsed)), files)
    given = next((one for one in parsed if one.username), parsed[0])
    user, password = user or given.username or "", password or given.password or ""
    # Kept out of the URLs: servers of a cluster that are found later need them too.
    bare = ", ".join(f"{one.hostname}:{one.port}" for one in parsed)  # no password in a message
    servers = [one._replace(netloc=one.netloc.rpartition("@")[2]).geturl() for one in parsed]
    prefix = inbox_prefix or subjects.inbox_prefix(user)
    try:
        async with asyncio.timeout(within_s):
            await bus.open(servers, user, password, name, prefix, min(SERVER_S, within_s / len(servers)))
    except TimeoutError:
        await bus.close()
        raise Unavailable(f"no answer from {bare} in {within_s:g} s{bus.silence}") from None
    except (Error, OSError) as error:
        await bus.close()
        raise Unavailable(f"cannot connect to {bare}: {error}") from None
    except (Refused, asyncio.CancelledError):
        await bus.close()
        raise
    return bus


class JetStreamBus:
    def __init__(self, connection: LoginConnection, files: LoginFiles = NO_FILES) -> None:
        self.connection, self._files = connection, files
        # Open ones are held by their routes, or by whoever waits for them.
        self._pullers: WeakSet[StreamFollower | LaggingFollower | QueueConsumer] = WeakSet()
        self._opened = False
        self._refused_since = 0.0
        self._wrong = ""  # what keeps it from being connected again, as it was logged
        self.silence = ""  # what a server that is there and says nothing may wait for
        self.connections = 1

    async def open(
        self, servers: list[str], user: str, password: str, name: str, inbox_prefix: str, server_s: float
    ) -> None:
        """`server_s`: how long one server may take to answer before the next is tried."""
        connection = self.connection
        connection.on_violation = self._violation
        await connection.connect(
            servers,
            user=user or None,
            password=password or None,
            name=name or None,
            inbox_prefix=inbox_prefix,
            connect_timeout=server_s,  # type: ignore[arg-type]  # a float works
            tls_handshake_first=self._files.tls_first,
            ping_interval=PING_S,
            max_outstanding_pings=PINGS,
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
        self._replicas = ReplicaReader(self._reader)
        self._timekeeper = Timekeeper(self.requests)
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
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None,
        on: int | None = None,
    ) -> "Future[int]":
        is_other = None if on is None else lambda: self.connections != on
        return await self._publisher.send(subject, data, expected, headers, is_other)

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        for pause in NOBODY_S:
            try:
                return await (await self._publisher.send(subject, data, expected, headers))
            except Nobody:
                await asyncio.sleep(pause)
        return await (await self._publisher.send(subject, data, expected, headers))

    def follow(
        self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False
    ) -> StreamFollower | LaggingFollower:
        for each in (*filters, stream):
            check_subject(each)
        follower: StreamFollower | LaggingFollower
        if lazy:
            follower = LaggingFollower(self.connection, self._reader, stream, filters, after)
        else:
            inbox = self.connection.new_inbox()
            follower = StreamFollower(self.connection, self.requests, inbox, stream, filters, after)
        self._pullers.add(follower)
        return follower

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        for each in filters:
            check_subject(each)
        reader = self._replicas if self.connection.is_clustered else self._reader
        return await reader.read(stream, filters, after)

    async def get(self, stream: str, subject: str, *, any_copy: bool = False) -> Message | None:
        is_direct = any_copy or not self.connection.is_clustered
        return await (self._reader if is_direct else self._replicas).last(stream, subject)

    async def last_seq(self, stream: str) -> int:
        return int((await self._info(stream))["state"]["last_seq"])

    async def created(self, stream: str) -> int:
        return nanoseconds((await self._info(stream))["created"])

    async def state(self, stream: str) -> StreamState:
        info = await self._info(stream)
        return StreamState(nanoseconds(info["created"]), int(info["state"]["last_seq"]))

    async def consumer(self, stream: str, durable: str) -> ConsumerState | None:
        try:
            found = await self.requests.api(api.consumer_info(stream, durable))
        except NotFound:
            return None
        last, floor = found["delivered"]["stream_seq"], found["ack_floor"]["stream_seq"]
        return ConsumerState(found["num_pending"], found["num_ack_pending"], last, floor)

    async def find(self, stream: str, subject: str, after: int = 0) -> Message | None:
        body = {"seq": after + 1, "next_by_subj": check_subject(subject)}
        try:
            found = (await self.requests.api(api.message_get(stream), body))["message"]
        except NoMessage:
            return None
        header = parse_headers(b64decode(found["hdrs"])) if "hdrs" in found else None
        at = nanoseconds(found["time"])
        return Message(found["subject"], b64decode(found.get("data", "")), found["seq"], header, at)

    async def delete(self, stream: str, seq: int) -> bool:
        """Not wiped: the memory is free again anyway."""
        try:
            await self.requests.api(api.message_delete(stream), {"seq": seq, "no_erase": True})
        except NoMessage:
            return False
        return True

    async def time(self) -> float:
        return await self._timekeeper.time()

    async def _info(self, stream: str) -> dict[str, Any]:
        return await self.requests.api(api.stream_info(stream))

    async def storage(self) -> Storage:
        info = await self.requests.api(api.INFO)
        return Storage(int(info["storage"]), max(0, int(info["limits"]["max_storage"])))

    # The queue

    async def consume(self, stream: str, durable: str, prefetch: int, *, keep: bool = False) -> QueueConsumer:
        check_subject(f"{stream}.{durable}")
        consumer = QueueConsumer(self.connection, time.monotonic, stream, durable, prefetch, keep)
        await consumer.start()
        self._pullers.add(consumer)
        return consumer

    # Buckets

    async def kv_is_named(self, bucket: str, key: str) -> bool:
        subject = kv.subject_of(bucket, key)
        wanted = {"subjects_filter": check_subject(subject)}
        info = await self.requests.api(api.stream_info(kv.stream_of(bucket)), wanted)
        return subject in (info["state"].get("subjects") or {})

    async def kv_get(self, bucket: str, key: str, *, any_copy: bool = False) -> Entry | None:
        found = await self.get(kv.stream_of(bucket), kv.subject_of(bucket, key), any_copy=any_copy)
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
        await self.append(kv.subject_of(bucket, key), b"", headers={KV_OPERATION: "DEL"})

    async def kv_purge(self, bucket: str, key: str) -> None:
        await self.requests.api(api.stream_purge(kv.stream_of(bucket)), {"filter": kv.subject_of(bucket, key)})

    async def kv_all(self, bucket: str) -> dict[str, bytes]:
        return kv.entries(bucket, await self.read(kv.stream_of(bucket), [subjects.key(bucket)]))

    # Core messages

    async def publish(self, subject: str, data: bytes) -> None:
        """While disconnected it is dropped: at most once."""
        self.connection.check_size(check_subject(subject), len(data))
        if self.connection.is_connected:
            self.connection.write(pub(subject, "", data))

    async def subscribe(self, subject: str, *, group: str = "") -> "CoreInbox":
        inbox = CoreInbox(self.connection)
        await inbox.open(subject, group)
        return inbox

    # What the connection reports

    async def _error(self, error: Exception) -> None:
        """While connecting, wrong credentials end it: nats-py would try them again for ever. Not at once: a server that
        reads its configuration again, because a pool got its account, refuses for a moment whom it knows. Later on they
        are tried for ever, since files are renewed; the log says so once."""
        wrong = explain(error, self._files)
        if self._opened:
            if wrong and wrong != self._wrong:
                log.warning("bus.cannot_log_in", error=wrong)
            self._wrong = wrong or self._wrong
        elif wrong:
            now = asyncio.get_running_loop().time()
            self._refused_since = self._refused_since or now
            if now - self._refused_since >= REFUSED_S:
                raise Refused(wrong)
        elif self.connection.was_reached:
            self.silence = hint(error, self._files)
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
        for puller in self._pullers:
            puller.disconnected()

    async def _reconnected(self) -> None:
        self.connections += 1
        self._wrong = ""
        self._publisher.connected()
        for puller in self._pullers:
            puller.reconnected()


class CoreInbox:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[tuple[bytes, bytes, bytes, bytes]] = asyncio.Queue()
        self._subscription: Subscription | None = None

    async def open(self, subject: str, group: str) -> None:
        self._subscription = await self._connection.route(check_subject(subject), self._arrived, group)

    def _arrived(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        if self._queue.qsize() >= MAX_INBOX:
            self._queue.get_nowait()
        self._queue.put_nowait((subject, reply, header, data))

    async def next(self) -> bytes:
        return (await self._queue.get())[3]

    async def message(self) -> Message:
        subject, reply, header, data = await self._queue.get()
        headers = parse_headers(header) if header else None
        return Message(text(subject), data, 0, headers, reply=text(reply))

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.unroute(subscription)
