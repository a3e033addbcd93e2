"""The bus in memory, one `MemoryBus` per client of a `MemoryBroker`. It keeps the promises of
`ports.Bus` by an injected clock: tests and the simulator run in no time."""

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

from shared.bus import kv
from shared.bus.memory.broker import Faults, MemoryBroker
from shared.bus.memory.replicas import MemoryCopies
from shared.bus.memory.stream import MemoryQueue, Stored
from shared.bus.ports import ConsumerState, Entry, Message, Storage, StreamState
from shared.bus.replicas import ReplicaReader
from shared.bus.subject import check_subject
from shared.errors import Conflict, Corrupt, NoetlError, Unavailable
from shared.events import subjects
from shared.events.headers import KV_OPERATION

__all__ = ["Faults", "MemoryBroker", "MemoryBus"]
MAX_BATCH = 512
RETRY_S = 0.05
T = TypeVar("T")
_ids = count(1)


class MemoryBus:
    def __init__(self, broker: MemoryBroker, name: str = "client") -> None:
        self.broker, self.name = broker, name
        self._in_order = asyncio.Lock()
        self.replicas = ReplicaReader(MemoryCopies(self))
        self._answers: set[asyncio.Task[None]] = set()

    async def call(self, operation: str, subject: str, apply: Callable[[], T]) -> T:
        broker = self.broker
        await broker.stop_if_killed(self.name)
        await broker.faults.before(operation, self.name, subject)
        await broker.stop_if_killed(self.name)
        result = apply()
        await broker.faults.after(operation, self.name, subject)
        await broker.stop_if_killed(self.name)
        return result

    # The log

    async def send(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None,
        on: int | None = None,
    ) -> "Future[int]":
        """Applied in the order of the calls; answered when the answer arrives."""
        check_subject(subject)
        broker = self.broker
        future: Future[int] = asyncio.get_running_loop().create_future()
        async with self._in_order:
            await broker.stop_if_killed(self.name)
            try:
                await broker.faults.before("send", self.name, subject)
                await broker.stop_if_killed(self.name)
                if on is not None and on != self.connections:
                    raise Unavailable(f"{subject} was meant for a connection that is over")
                answer: int | NoetlError = self._store(subject, data, expected, headers)
            except NoetlError as error:
                answer = error
        if broker.is_faultless:
            _resolve(future, answer)
        else:
            task = asyncio.ensure_future(self._answer(future, subject, answer))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        return future

    def _store(self, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None) -> int:
        stream = self.broker.stream_taking(subject)
        if expected is not None and self.broker.contested(self.name, subject):
            raise Conflict(f"{subject}: wrong last sequence (10164)")
        seq = stream.append(subject, data, expected, headers, self.broker.wall())
        if subject.startswith(f"{subjects.KV}."):
            self._publish(subject, data, headers)
        self.broker.wake()
        return seq

    async def _answer(self, future: "Future[int]", subject: str, answer: int | NoetlError) -> None:
        try:
            await self.broker.faults.after("send", self.name, subject)
        except NoetlError as error:
            answer = error
        await self.broker.stop_if_killed(self.name)
        _resolve(future, answer)

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        return await (await self.send(subject, data, expected=expected, headers=headers))

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> "MemoryFollower":
        return MemoryFollower(self, stream, tuple(filters) or (">",), after)

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        if self.broker.lag is not None:
            return await self.replicas.read(stream, filters, after)
        return await self.call("read", stream, lambda: self.broker.stream(stream).read(filters, after))

    async def get(self, stream: str, subject: str, *, any_copy: bool = False) -> Message | None:
        return await self.call("get", subject, lambda: self._newest(stream, subject, any_copy))

    def _newest(self, stream: str, subject: str, any_copy: bool) -> Message | None:
        """A copy that is behind may have nothing: what it had before is not kept here."""
        found = self.broker.stream(stream).newest(subject)
        return None if found is not None and any_copy and found.seq > self.reached(stream) else found

    def reached(self, stream: str) -> int:
        """How far the replica is that answers just now."""
        lag = self.broker.lag
        return self.broker.stream(stream).last - (0 if lag is None else lag(self.name, stream))

    async def last_seq(self, stream: str) -> int:
        return await self.call("last_seq", stream, lambda: self.broker.stream(stream).last)

    async def created(self, stream: str) -> int:
        return await self.call("created", stream, lambda: self.broker.stream(stream).created)

    async def time(self) -> float:
        return await self.call("time", "", self.broker.told_time)

    async def state(self, stream: str) -> StreamState:
        return await self.call("state", stream, lambda: self.broker.stream(stream).state())

    async def consumer(self, stream: str, durable: str) -> ConsumerState | None:
        return await self.call("consumer", stream, lambda: self._state_of(stream, durable))

    def _state_of(self, stream: str, durable: str) -> ConsumerState | None:
        self.broker.stream(stream)
        queue = self.broker.queue(stream, durable)
        return None if queue is None else queue.state()

    async def find(self, stream: str, subject: str, after: int = 0) -> Message | None:
        found = await self.call("find", subject, lambda: self.broker.stream(stream).read((subject,), after))
        return found[0] if found else None

    async def delete(self, stream: str, seq: int) -> bool:
        return await self.call("delete", stream, lambda: self._delete(stream, seq))

    def _delete(self, stream: str, seq: int) -> bool:
        was_there = seq in self.broker.stream(stream).stored
        self.broker.stream(stream).remove(seq)
        self.broker.forget(stream, seq)
        return was_there

    # The queue

    async def consume(self, stream: str, durable: str, prefetch: int, *, keep: bool = False) -> "MemoryConsumer":
        """Nothing is fetched ahead: a take costs nothing here."""
        return MemoryConsumer(self, stream, durable)

    # Buckets

    async def kv_get(self, bucket: str, key: str, *, any_copy: bool = False) -> Entry | None:
        subject = kv.subject_of(bucket, key)
        found = await self.call("kv_get", subject, lambda: self._newest(kv.stream_of(bucket), subject, any_copy))
        return None if found is None or kv.is_deleted(found.headers) else Entry(found.data, found.seq)

    async def kv_is_named(self, bucket: str, key: str) -> bool:
        subject, stream = kv.subject_of(bucket, key), kv.stream_of(bucket)
        return await self.call("kv_is_named", subject, lambda: self.broker.stream(stream).newest(subject) is not None)

    async def kv_put(self, bucket: str, key: str, value: bytes, *, expected: int | None = None) -> int:
        subject = kv.subject_of(bucket, key)
        return await self.call("kv_put", subject, lambda: self._put(bucket, subject, value, expected))

    def _put(self, bucket: str, subject: str, value: bytes, expected: int | None) -> int:
        found = self.broker.stream(kv.stream_of(bucket)).newest(subject)
        if expected == 0 and found is not None and kv.is_deleted(found.headers):
            expected = found.seq  # over the mark of its deletion
        return self._store(subject, value, expected, None)

    async def kv_delete(self, bucket: str, key: str) -> None:
        subject = kv.subject_of(bucket, key)
        mark = {KV_OPERATION: "DEL"}
        await self.call("kv_delete", subject, lambda: self._store(subject, b"", None, mark))

    async def kv_purge(self, bucket: str, key: str) -> None:
        subject, stream = kv.subject_of(bucket, key), kv.stream_of(bucket)
        await self.call("kv_purge", subject, lambda: self.broker.purge(stream, subject))

    async def kv_all(self, bucket: str) -> dict[str, bytes]:
        stream = kv.stream_of(bucket)
        if self.broker.lag is not None:
            found = await self.replicas.read(stream, (">",), 0)
        else:
            found = await self.call("kv_all", stream, lambda: self.broker.stream(stream).read((">",), 0))
        return kv.entries(bucket, found)

    async def storage(self) -> Storage:
        return await self.call("storage", "", lambda: self.broker.storage)

    # Core messages

    async def publish(self, subject: str, data: bytes) -> None:
        await self.call("publish", check_subject(subject), lambda: self._publish(subject, data))

    def _publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        for _, queue in [] if self.broker.is_down else self.broker.hearers(subject):
            queue.put_nowait(Message(subject, data, 0, headers))

    async def subscribe(self, subject: str, *, group: str = "") -> "MemoryInbox":
        return MemoryInbox(self, subject, group)

    @property
    def connections(self) -> int:
        return 1 + self.broker.restarts

    async def close(self) -> None:
        for task in self._answers:
            task.cancel()


class MemoryFollower:
    def __init__(self, bus: MemoryBus, stream: str, filters: Sequence[str], after: int) -> None:
        self._bus, self._stream, self._filters, self._last = bus, stream, filters, after
        self._looked_to = -1
        self._closed = False

    async def batch(self) -> Sequence[Message]:
        """An outage, or a delivery that is lost, only delays it: the next attempt starts after the last."""
        broker = self._bus.broker
        while True:
            if self._closed:
                raise Unavailable("the follower is closed")
            version, end, until = broker.version, broker.end_of(self._stream), None
            if end == self._looked_to:  # what changed was another stream
                await broker.changed(version)
                continue
            try:
                found = await self._bus.call("deliver", self._stream, self._arrived)
                self._looked_to = end
            except Unavailable:
                found, until = [], broker.clock.now() + RETRY_S
            if found:
                self._last = found[-1].seq
                self._looked_to = -1
                return found
            await broker.changed(version, until)

    def _arrived(self) -> list[Message]:
        stream = self._bus.broker.stream(self._stream)
        if stream.last < self._last:
            raise Corrupt(
                f"the stream ends before the cursor: {self._stream} holds up to {stream.last}, "
                f"{self._last} was read already; it was rolled back or replaced"
            )
        arriving = stream.after(self._last, self._filters)
        return [message for message, _ in zip(arriving, range(MAX_BATCH), strict=False)]

    async def close(self) -> None:
        self._closed = True
        self._bus.broker.wake()


class MemoryConsumer:
    def __init__(self, bus: MemoryBus, stream: str, durable: str) -> None:
        self._bus, self._stream, self._durable = bus, stream, durable
        self._closed = False

    async def batch(self, limit: int) -> Sequence["MemoryDelivery"]:
        assert limit > 0, "ask for at least one"
        broker = self._bus.broker
        while True:
            if self._closed:
                raise Unavailable("the consumer is closed")
            version, queue = broker.version, broker.queue(self._stream, self._durable)
            free_at = None if queue is None else queue.next_at()
            if free_at is None or free_at > broker.clock.now():
                await broker.changed(version, free_at)
                continue
            try:
                taken = await self._bus.call("take", self._stream, lambda: self._take(limit))
            except Unavailable:  # lost on its way: it comes again when its lease is over
                await broker.clock.sleep(RETRY_S)
                continue
            if taken:
                return taken

    def _take(self, limit: int) -> list["MemoryDelivery"]:
        broker = self._bus.broker
        queue = broker.queue(self._stream, self._durable)
        taken = [] if queue is None else queue.take(limit, broker.clock.now())
        return [MemoryDelivery(self._bus, self._stream, self._durable, stored, n) for stored, n in taken]

    async def close(self) -> None:
        self._closed = True
        self._bus.broker.wake()


class MemoryDelivery:
    def __init__(self, bus: MemoryBus, stream: str, durable: str, stored: Stored, delivered: int) -> None:
        self._bus, self._stream, self._durable = bus, stream, durable
        self._created = bus.broker.stream(stream).created
        self.subject, self.data, self.seq = stored.message.subject, stored.message.data, stored.message.seq
        self.headers: dict[str, str] | None = stored.message.headers
        self.epoch: tuple[int, int] = (stored.timestamp, delivered)

    async def ack(self) -> None:
        await self._tell("ack", lambda queue, _: queue.ack(self.seq))

    async def nak(self, delay: float = 0.0) -> None:
        await self._tell("nak", lambda queue, now: queue.keep(self.seq, now + delay))

    async def progress(self) -> None:
        await self._tell("progress", lambda queue, now: queue.keep(self.seq, now + queue.config.lease_s))

    async def extend(self) -> None:
        await self._apply("progress", lambda queue, now: queue.keep(self.seq, now + queue.config.lease_s))

    async def _tell(self, operation: str, change: Callable[[MemoryQueue, float], None]) -> None:
        """Not confirmed, as on a real broker: one that is lost is found out by the lease."""
        with suppress(Unavailable):
            await self._apply(operation, change)

    async def _apply(self, operation: str, change: Callable[[MemoryQueue, float], None]) -> None:
        def apply() -> None:
            broker = self._bus.broker
            queue = broker.queue(self._stream, self._durable)
            if queue is not None and broker.streams[self._stream].created == self._created:
                change(queue, broker.clock.now())
                broker.wake()

        await self._bus.call(operation, self.subject, apply)


class MemoryInbox:
    def __init__(self, bus: MemoryBus, subject: str, group: str = "") -> None:
        self._bus, self._id = bus, next(_ids)
        self._queue: asyncio.Queue[Message] = asyncio.Queue()
        bus.broker.inboxes[self._id] = (bus.name, subject, self._queue)
        if group:
            bus.broker.groups[self._id] = group

    async def next(self) -> bytes:
        return (await self._queue.get()).data

    async def message(self) -> Message:
        return await self._queue.get()

    async def close(self) -> None:
        self._bus.broker.inboxes.pop(self._id, None)
        self._bus.broker.groups.pop(self._id, None)


def _resolve(future: "Future[int]", answer: int | NoetlError) -> None:
    if future.done():
        return
    if isinstance(answer, int):
        future.set_result(answer)
    else:
        future.set_exception(answer)
        future.exception()  # a caller that has gone away is not an unhandled error
