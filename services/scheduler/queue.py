"""The command queue as the scheduler sees it: publishing, and issuing again after the queue was lost. Requests
for children go out the same way, to a stream that is kept.

The queue is in memory. When the broker restarts it is gone, and its creation time is new: then every
command that the log says is due is published again, except those a live worker still holds. A run
skipped for that reason is looked at until its worker reports or is gone.
How many commands are in it at a time, and whose, is decided in `fair.py`.
Single commands get lost too: the queue takes an acknowledgement from a lease that is over, and with it
goes the command that a later lease holds; if that worker dies, nobody is left. So a sweep publishes
what was due and held by nobody twice in a row: what is still in the queue is refused there.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from services.scheduler.fair import Fair
from services.scheduler.limits import Limits
from services.scheduler.rooms import Rooms
from services.scheduler.stops import Stops
from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.engine.limiting import Want
from shared.errors import Duplicate, NoetlError, Unavailable
from shared.events import command, subjects
from shared.events.beat import Beat, Key
from shared.events.command import Command
from shared.events.request import Control, Request
from shared.events.stop import Stop
from shared.runtime.core import Free, Outgoing
from shared.runtime.shell import FRESH_S

log = structlog.get_logger()
WATCH_S = 1.0
RETRY_S = 0.25
NOT_FREE_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
REFUSED_S = 10.0  # someone has to change something first
GRACE_S = 2.0  # after a loss, workers get this long to connect again and say what they hold
SWEEP_S = 20.0
MAX_SWEEP = 2000  # commands; the oldest first, and a queue in order gets to the oldest first too
MSG_ID_HEADER = "Nats-Msg-Id"


class _Batch:
    """Calls `then` when the broker has every command of the batch."""

    __slots__ = ("left", "then")

    def __init__(self, left: int, then: Callable[[], None]) -> None:
        self.left, self.then = left, then

    def taken(self) -> None:
        self.left -= 1
        if not self.left:
            self.then()


class _Waiting:
    """A message on its way to the broker, since when, and over how many connections so far."""

    __slots__ = ("at", "batch", "connections", "held", "item", "tries")

    def __init__(self, item: Outgoing, batch: _Batch, at: float, connections: int) -> None:
        self.item, self.batch, self.at, self.connections = item, batch, at, connections
        self.tries = 0
        self.held = False

    def let_go(self) -> None:
        """Whoever sent it need not wait until it is its turn: the log says that it is due."""
        self.batch.taken()
        self.batch = _Batch(1, _nothing)

    def is_next_try(self) -> bool:
        """After a wait, the worker whose task waited may not have acknowledged its command yet: soon it has.
        If another one holds the run, it gets to the end of the wait by itself; if that is lost, the sweep
        finds the run."""
        self.tries += 1
        return isinstance(self.item, Command) and self.item.since > 0 and self.tries <= len(NOT_FREE_S)


class CommandQueue:
    """`remake` creates the queue's stream and consumers; `due` lists all outstanding commands; `share` is the part
    of all executions that are looked after here."""

    def __init__(
        self, bus: Bus, clock: Clock, remake: Callable[[], Awaitable[object]], due: Callable[[], Iterable[Command]],
        share: Callable[[], float], limits: Limits,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._remake = remake
        self._due = due
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._created = 0
        self._known = asyncio.Event()
        self._skipped: set[Key] = set()
        self._idle: set[Key] = set()
        self._swept = clock.now()
        self._stops = Stops(bus, clock)
        self._limits = limits
        self._rooms = Rooms(bus, clock, share, self._pump)
        self._pools: dict[str, Fair[_Waiting]] = {}
        self._ended: dict[str, int] = {}

    def send(self, messages: Sequence[Outgoing], then: Callable[[], None]) -> None:
        batch, now, connections = _Batch(len(messages), then), self._clock.now(), self._bus.connections
        offered = []
        for item in messages:
            waiting = _Waiting(item, batch, now, connections)
            match item:
                case Command():
                    self._offer(waiting, item)
                    offered.append(waiting)
                case Free(execution_id=execution_id, run_id=run_id, index=index, parked=parked):
                    for fair in self._pools.values():
                        fair.free(execution_id, run_id, index)
                    if not parked:
                        self._limits.free(item)
                    batch.taken()
                case Want():
                    self._limits.take(item)
                    batch.taken()
                case _:
                    self._waiting.append(waiting)
        self._pump()
        for waiting in offered:
            if waiting.held:
                waiting.let_go()

    def _offer(self, waiting: _Waiting, item: Command) -> None:
        fair = self._pools.get(item.pool)
        if fair is None:
            fair = self._pools[item.pool] = Fair()
        key = _key(item)
        if fair.is_under_way(key):
            self._waiting.append(waiting)
        else:
            waiting.held = True
            fair.offer(key, waiting, item.priority)

    def _pump(self) -> None:
        for pool, fair in self._pools.items():
            if fair.is_holding:
                for waiting in fair.released(self._rooms.most(pool), self._rooms.room(pool)):
                    waiting.held = False
                    self._waiting.append(waiting)
        self._wake.set()

    async def close(self) -> None:
        await self._stops.close()

    async def run(self) -> None:
        """Publishes only once it knows the queue's time of creation: else a loss could go unnoticed."""
        await self._known.wait()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._publish(self._waiting.popleft())

    async def _publish(self, waiting: "_Waiting") -> None:
        if isinstance(waiting.item, Stop):
            await self._stops.say(waiting.item)
            waiting.batch.taken()
            return
        if isinstance(waiting.item, Command) and self._stops.is_stopped(waiting.item):
            waiting.batch.taken()
            return
        late = self._clock.now() - waiting.at > FRESH_S or waiting.connections != self._bus.connections
        if late:
            waiting.item = _stale(waiting.item)
        subject, data, message_id = _message(waiting.item)
        try:
            future = await self._bus.send(subject, data, headers={MSG_ID_HEADER: message_id})
        except NoetlError as error:
            self._not_sent(waiting, error)
        else:
            future.add_done_callback(partial(self._sent, waiting))

    def _sent(self, waiting: "_Waiting", future: "asyncio.Future[int]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Duplicate) and waiting.is_next_try():
            self._later(NOT_FREE_S[waiting.tries - 1], waiting)
        elif error is None or isinstance(error, Duplicate):
            waiting.batch.taken()
        else:
            self._not_sent(waiting, error)

    def _not_sent(self, waiting: "_Waiting", error: BaseException) -> None:
        """Not fresh any more: an unanswered publish may have reached a worker."""
        pause = RETRY_S
        if not isinstance(error, Unavailable):
            log.error("command.refused", execution_id=waiting.item.execution_id, error=str(error))
            pause = REFUSED_S
        waiting.item = _stale(waiting.item)
        self._later(pause, waiting)

    def _later(self, pause: float, waiting: "_Waiting") -> None:
        asyncio.get_running_loop().call_later(pause, self._requeue, waiting)

    def _requeue(self, waiting: "_Waiting") -> None:
        waiting.at, waiting.connections = self._clock.now(), self._bus.connections
        self._waiting.append(waiting)
        self._wake.set()

    # -- loss --------------------------------------------------------------------------

    async def listen(self) -> None:
        """Hears how much room the workers have."""
        await self._rooms.run()

    async def watch(self) -> None:
        """Notices a new queue, and workers that died holding a run of the lost one."""
        while True:
            self._rooms.forget_silent()
            self._look_at_held()
            try:
                await self._look()
            except NoetlError as error:
                log.warning("queue.waits", error=str(error))
            await self._clock.sleep(WATCH_S)

    def _look_at_held(self) -> None:
        """An end that was not heard of must not hold the others back for ever."""
        stuck = [pool for pool, fair in self._pools.items() if fair.is_holding and fair.ended == self._ended.get(pool)]
        if stuck:
            due = {_key(item) for item in self._due()}
            for pool in stuck:
                self._pools[pool].keep(due.__contains__)
        self._ended = {pool: fair.ended for pool, fair in self._pools.items()}
        self._pump()

    async def _look(self) -> None:
        try:
            created = await self._bus.created(topology.COMMANDS)
        except Unavailable:
            await self._remake()
            created = await self._bus.created(topology.COMMANDS)
        if self._created and created != self._created:
            await self._remake()
            await self._clock.sleep(GRACE_S)
            await self._issue_again()
        elif self._skipped:
            await self._look_at_skipped()
        elif self._clock.now() - self._swept > SWEEP_S:
            await self._sweep()
        self._created = created
        self._known.set()

    async def _issue_again(self) -> None:
        held = await self._held()
        due = {_key(item): item for item in self._due()}
        self._skipped = held & due.keys()
        lost = [item for key, item in due.items() if key not in held]
        log.warning("queue.lost", issued_again=len(lost), held_by_workers=len(self._skipped))
        if lost:
            self.send(lost, lambda: None)

    async def _look_at_skipped(self) -> None:
        held = await self._held()
        due = {_key(item): item for item in self._due()}
        gone = [item for key, item in due.items() if key in self._skipped and key not in held]
        self._skipped = {key for key in self._skipped if key in due and key in held}
        if gone:
            log.warning("worker.gone", issued_again=len(gone))
            self.send(gone, lambda: None)

    async def _sweep(self) -> None:
        held = await self._held()
        due = {key: item for item in self._due() if (key := _key(item)) not in held}
        lost = [item for key, item in due.items() if key in self._idle][:MAX_SWEEP]
        self._idle, self._swept = set(due), self._clock.now()
        if lost:
            self.send(lost, lambda: None)

    async def _held(self) -> set[Key]:
        beats = await self._bus.kv_all(topology.WORKERS)
        return {key for data in beats.values() for key in msgspec.json.decode(data, type=Beat).held}


def _nothing() -> None:
    """Nobody waits for it."""


def _stale(item: Outgoing) -> Outgoing:
    return msgspec.structs.replace(item, fresh=False) if isinstance(item, Command) and item.fresh else item


def _message(item: Outgoing) -> tuple[str, bytes, str]:
    """Subject, data and id. Another scheduler may believe it owns the partition too. The broker remembers ids
    for longer than twice FRESH_S: a fresh command is refused if the run ever had one, and a command after a
    wait if that wait's end had one."""
    match item:
        case Command():
            subject = subjects.command(item.pool, item.execution_id, item.run_id, item.index)
            return subject, command.encode(item), f"{subject}@{item.since}" if item.since else subject
        case Control():
            return subjects.CANCEL, msgspec.json.encode(item), f"cancel-{item.execution_id}"
        case Request():
            return subjects.EXECUTE, msgspec.json.encode(item), item.execution_id
        case _:
            raise AssertionError(f"a scheduler does not send {type(item).__name__}")


def _key(item: Command) -> Key:
    return item.execution_id, item.run_id, item.index
