"""The command queue as the scheduler sees it. How many commands are in it at a time, and whose, is decided in
`fair.py`; `publishing.py` hands them to the broker. What gets lost on the way is issued again: all of it when the
queue is lost and single commands that nobody has (`loss.py`), and what a dead worker held (`takeover.py`).
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from services.scheduler.fairness import Fair
from services.scheduler.families import Families
from services.scheduler.heartbeats import Hearing
from services.scheduler.limits import Limits
from services.scheduler.pool_capacity import Rooms
from services.scheduler.publisher import Batch, Publishing, Waiting
from services.scheduler.queue_loss import Loss
from services.scheduler.reissue import Again
from services.scheduler.takeover import Known, Takeover
from shared.bus.ports import Bus, Clock
from shared.engine.core import Outgoing
from shared.engine.scheduling.limits import Want
from shared.engine.scheduling.messages import Free
from shared.engine.scheduling.state import Schedule
from shared.events.beat import Key
from shared.events.command import Command, key_of
from shared.events.request import Request

COMPARE_S = 60.0  # what is under way is compared with the log at least so often: it takes a second when 100,000 are due


class Log(Protocol):
    """What the log says is outstanding in the partitions that are looked after here; `share` is their part of all."""

    def due(self) -> Iterable[Command]: ...
    def live(self) -> Iterable[Schedule]: ...
    def known(self, execution_id: str) -> Known: ...
    def share(self) -> float: ...


class CommandQueue:
    """`remake` creates the queue's stream and consumers."""

    def __init__(
        self, bus: Bus, clock: Clock, remake: Callable[[], Awaitable[object]], log: Log, limits: Limits
    ) -> None:
        self._bus, self._clock, self._log, self._limits = bus, clock, log, limits
        self._publishing = Publishing(bus, clock)
        again = Again(bus, self._publishing.again)
        self._rooms = Rooms(clock, log.share, self._pump)
        self._takeover = Takeover(clock, log.known, again)
        self._hearing = Hearing(bus, self._rooms, self._takeover)
        self._loss = Loss(bus, clock, remake, self._out, self._publishing, again, self._look)
        self._families = Families(clock, log.live, log.share)
        self._pools: dict[str, Fair[Waiting]] = {}
        self._ended: dict[str, int] = {}
        self._compared = clock.now()

    def send(self, messages: Sequence[Outgoing], then: Callable[[], None]) -> None:
        batch, now, connections = Batch(len(messages), then), self._clock.now(), self._bus.connections
        offered = []
        for item in messages:
            waiting = Waiting(item, batch, now, connections)
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
                case Request():
                    waiting.item = self._families.admit(item)
                    self._publishing.add(waiting)
                case _:
                    self._publishing.add(waiting)
        self._pump()
        for waiting in offered:
            if waiting.held:
                waiting.let_go()

    def _offer(self, waiting: Waiting, item: Command) -> None:
        fair = self._pools.get(item.pool)
        if fair is None:
            fair = self._pools[item.pool] = Fair()
        key = key_of(item)
        if fair.is_under_way(key):
            self._publishing.add(waiting)
        else:
            waiting.held = True
            fair.offer(key, waiting, item.priority, item.root)

    def _pump(self) -> None:
        for pool, fair in self._pools.items():
            if fair.is_holding:
                for waiting in fair.released(self._rooms.most(pool), self._rooms.room(pool)):
                    waiting.held = False
                    self._publishing.add(waiting)

    def _out(self) -> Iterable[Command]:
        """What should be in the queue or with a worker. What is held back is not lost: it would get there before its
        turn, with all others that wait for theirs."""
        for item in self._log.due():
            fair = self._pools.get(item.pool)
            if fair is None or not fair.is_held(key_of(item)):
                yield item

    def _look(self, listened: float) -> None:
        """Every second or so; for so many seconds since the last time, beats would have been heard."""
        self._takeover.listened(listened)
        self._rooms.forget_silent()
        self._look_at_held()

    def _look_at_held(self) -> None:
        """An end that was not heard of must not hold the others back for ever: not where nothing ends any more, and not
        where others do."""
        now = self._clock.now()
        late = now - self._compared > COMPARE_S
        stuck = [
            pool for pool, fair in self._pools.items()
            if fair.is_holding and (late or fair.ended == self._ended.get(pool))
        ]
        if late:
            self._compared = now
        if stuck:
            due: set[Key] = set(map(key_of, self._log.due()))
            for pool in stuck:
                self._pools[pool].keep(due.__contains__)
        self._ended = {pool: fair.ended for pool, fair in self._pools.items()}
        self._pump()

    async def run(self) -> None:
        """Publishes for ever; cancel to stop."""
        await self._publishing.run()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside it."""
        return [self._loss.watch(), self._takeover.run(), *self._hearing.loops()]

    async def close(self) -> None:
        await self._publishing.close()
