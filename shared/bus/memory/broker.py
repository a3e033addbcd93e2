"""The broker in memory: the state all clients share, and the handles a simulator pulls.

Every operation of a client passes `faults.before` on its way in and `faults.after` on its way out:
    sleep in either            a slow network
    raise Unavailable before   the request is lost: nothing was applied
    raise Unknown after        the answer is lost: it was applied
On top of that: `down`, `kill`, `lose`, `wipe`, `empty`, `purge`, `free_leases`; and `lag` and `contested`, which
make it a cluster.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable
from typing import NoReturn

from shared.bus import kv, topology
from shared.bus.memory.stream import MemoryQueue, MemoryStream, later
from shared.bus.ports import Clock, Message, Storage
from shared.bus.subject import matches
from shared.errors import Unavailable
from shared.events import subjects


class Faults:
    """No faults. `operation` is a method of the bus, or `deliver`, `take`, `ack`, `nak`, `progress`."""

    async def before(self, operation: str, client: str, subject: str) -> None: ...

    async def after(self, operation: str, client: str, subject: str) -> None: ...


class MemoryBroker:
    def __init__(
        self, clock: Clock, wanted: topology.Topology | None = None, faults: Faults | None = None
    ) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.is_faultless = faults is None
        self.streams: dict[str, MemoryStream] = {}
        self.queues: dict[tuple[str, str], MemoryQueue] = {}
        # On a cluster: of how many of a stream's last messages the replica that answers this client now has no copy
        # yet. Asked again for every single answer. None: there is one server.
        self.lag: Callable[[str, str], int] | None = None
        # A client's append to a subject meets another one that is on its way there: a Conflict without a sequence,
        # though nothing that is stored shows why, now or ever.
        self.contested: Callable[[str, str], bool] = lambda _client, _subject: False
        self.inboxes: dict[int, tuple[str, str, asyncio.Queue[Message]]] = {}  # id → client, subject, messages
        self.groups: dict[int, str] = {}  # of those inboxes of which one hears each message
        self._is_down = False
        self._killed: set[str] = set()
        self._waiters: dict[Future[None], None] = {}  # woken in the order they came
        self._epoch = 0
        self.stepped_s = 0.0  # its wall clock was set by so much; leases and timers do not follow it
        self.version = 0
        self.restarts = 0
        self.storage = Storage(0, 0)  # as a test says
        if wanted is not None:
            self.ensure(wanted)

    # Making

    def ensure(self, wanted: topology.Topology) -> None:
        for stream in wanted.streams:
            if stream.name not in self.streams:
                self.streams[stream.name] = MemoryStream(stream, self._created())
        for bucket in wanted.buckets:
            name = kv.stream_of(bucket.name)
            if name not in self.streams:
                config = topology.Stream(name, (subjects.key(bucket.name),))
                self.streams[name] = MemoryStream(config, self._created(), bucket.history, bucket.ttl_s)
        for consumer in wanted.consumers:
            if (consumer.stream, consumer.name) not in self.queues:
                queue = MemoryQueue(consumer, self.streams[consumer.stream])
                self.queues[consumer.stream, consumer.name] = queue
        self.wake()

    def _created(self) -> int:
        self._epoch = later(self._epoch, self.wall())
        return self._epoch

    def wall(self) -> float:
        return self.clock.now() + self.stepped_s

    # Looking up

    def told_time(self) -> float:
        if self._is_down:
            raise Unavailable("the broker does not answer")
        return self.wall()

    def stream(self, name: str) -> MemoryStream:
        if self._is_down or name not in self.streams:
            raise Unavailable(f"stream {name} does not answer")
        stream = self.streams[name]
        stream.expire(self.wall())
        return stream

    def end_of(self, name: str) -> int:
        """The last sequence of a stream, without asking for anything; -1 when it does not answer."""
        return -1 if self._is_down or name not in self.streams else self.streams[name].last

    def stream_taking(self, subject: str) -> MemoryStream:
        for name, stream in self.streams.items():
            if stream.takes(subject):
                return self.stream(name)
        raise Unavailable(f"no stream takes {subject}")

    def hearers(self, subject: str) -> list[tuple[str, "asyncio.Queue[Message]"]]:
        """The clients that hear a core message, and where; of a group, one."""
        found, served = [], set[tuple[str, str]]()
        for number, (client, pattern, messages) in self.inboxes.items():
            group = self.groups.get(number, "")
            if matches(pattern, subject) and (pattern, group) not in served:
                found.append((client, messages))
                if group:
                    served.add((pattern, group))
        return found

    def queue(self, stream: str, name: str) -> MemoryQueue | None:
        """None while there is nothing to take from: consumers wait for it to come back."""
        return None if self._is_down else self.queues.get((stream, name))

    @property
    def is_down(self) -> bool:
        return self._is_down

    # Faults

    def set_down(self, is_down: bool) -> None:
        """While down, every request is refused and nothing is delivered; nothing is lost."""
        self._is_down = is_down
        self.wake()

    def kill(self, client: str) -> None:
        """No call of this client, now or later, returns. What it holds comes free by its lease."""
        self._killed.add(client)
        self.inboxes = {i: inbox for i, inbox in self.inboxes.items() if inbox[0] != client}

    def lose(self, stream: str) -> None:
        """A memory stream after a server restart: it is not there until someone makes it again."""
        self.restarts += 1
        self.streams.pop(stream, None)
        self.queues = {key: queue for key, queue in self.queues.items() if key[0] != stream}
        self.wake()

    def wipe(self, stream: str) -> None:
        """Lost and made again at once: empty, with another time of creation."""
        config = self.streams[stream].config
        consumers = tuple(q.config for (name, _), q in self.queues.items() if name == stream)
        self.lose(stream)
        self.ensure(topology.Topology((config,), consumers, (), 0))

    def empty(self, stream: str) -> None:
        """A memory stream after its whole cluster restarted: empty, its sequences begin again, the time of its creation
        is the old one."""
        created = self.streams[stream].created
        self.wipe(stream)
        self.streams[stream].created = created

    def purge(self, stream: str, pattern: str) -> None:
        """As someone does by hand. At the next acknowledgement the floor of a consumer that held something of it moves
        past all that it holds below: that is then neither pending nor delivered again."""
        gone = self.streams[stream].purge(pattern)
        for (name, _), queue in self.queues.items():
            if name == stream:
                queue.purged(gone)
        self.wake()

    def forget(self, stream: str, seq: int) -> None:
        """A message was deleted."""
        for (name, _), queue in self.queues.items():
            if name == stream:
                queue.forget(seq)

    def free_leases(self, stream: str) -> None:
        """Every held message may be taken again now, whoever holds it."""
        for (name, _), queue in self.queues.items():
            if name == stream:
                queue.free_all(self.clock.now())
        self.wake()

    # Waiting

    async def stop_if_killed(self, client: str) -> None:
        if client in self._killed:
            await _never()

    def wake(self) -> None:
        self.version += 1
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self, since: int, until: float | None = None) -> None:
        """Waits for a change after version `since`, or until the clock says `until`."""
        if self.version != since:
            return
        waiter: Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        alarm = None if until is None else asyncio.ensure_future(self._alarm(until, waiter))
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
            if alarm is not None:
                alarm.cancel()

    async def _alarm(self, until: float, waiter: "Future[None]") -> None:
        await self.clock.sleep(max(0.0, until - self.clock.now()))
        if not waiter.done():
            waiter.set_result(None)


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody resolves this")
