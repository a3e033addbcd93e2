"""The command queue as the scheduler sees it. Begin reading the room here.

Theory of operation
-------------------
The queue is a stream in the broker's memory. Everything in it follows from the log
(`shared/engine/scheduling/core.py`), so it may be lost at any time; what must not get lost is the knowledge that it
was.

1. *On the way out.* A command first comes to its pool's `Fair` (`fairness.py`), which lets it pass if nobody is held
   back and there is room, and else holds it back until it is its turn. Then it is handed to the publisher
   (`publisher.py`), which sends it until the broker has it. Other messages skip the first station. Requests for
   children are counted on the way (`families.py`): over the bound, they carry the refusal.
2. *Who waits for what.* The shell's cursor may pass a record once the messages that follow from it are with the broker
   (`Batch`). A command that is held back is the exception, and is let go at once (`let_go`): it may wait for an hour,
   and is not lost with this process, because whoever loads the execution next derives and offers it again.
3. *Under way.* A command counts as under way from its release until the log says that its run ended or waits (`Free`).
   An end that was missed must not keep others back for ever. So where commands are held and nothing ends, and once in
   COMPARE_S in any case, what is under way is compared with what the log says is due.
4. *Lost on the way.* `queue_loss.py` watches for the loss of the whole queue and of single commands; `takeover.py` for
   workers that died with what they held. Both issue commands again in the one way there is (`reissue.py`).
5. *Repeating is safe.* The queue accepts one message per subject, and there is one subject for each run, iteration,
   frame and local loop. A second command of the same run is refused while the first is queued or held. If one gets
   through all the same, its lease has a higher epoch and the earlier holder is fenced by the log: at worst a call is
   repeated.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
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
from shared.runtime.service import metric_names as names
from shared.runtime.service.metrics import Sample

COMPARE_S = 60.0  # at least this often (rule 3); not more, since it takes a second when 100,000 commands are due


class Log(Protocol):
    """What the log says is outstanding in the partitions of this scheduler; `share` is their fraction of all."""

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
        self._again = again = Again(bus, self._publishing.again)
        self._rooms = Rooms(clock, log.share, self._pump)
        self._takeover = Takeover(clock, log.known, again)
        self._hearing = Hearing(bus, self._rooms, self._takeover)
        self._loss = Loss(bus, clock, remake, self._out, self._publishing, again, self._look)
        self._families = Families(clock, log.live, log.share)
        self._pools: dict[str, Fair[Waiting]] = {}
        self._ended: dict[str, int] = {}
        self._compared, self._share = clock.now(), 0.0

    def held(self) -> dict[str, int]:
        """How many commands are held back, by pool."""
        return {pool: fair.held for pool, fair in self._pools.items() if fair.is_holding}

    def samples(self) -> Iterator[Sample]:
        now = self._clock.now()
        for pool, fair in self._pools.items():
            yield Sample(names.RELEASED, fair.turns, (pool,))
            yield Sample(names.UNDER_WAY, fair.under_way, (pool,))
            yield Sample(names.HELD, fair.held, (pool,))
            first = min((waiting.at for waiting in fair.next_of_each()), default=now)
            yield Sample(names.HELD_SECONDS, max(0.0, now - first), (pool,))
        yield Sample(names.REFUSED, self._publishing.refused)
        yield Sample(names.TAKEOVERS, self._takeover.count)
        yield Sample(names.REISSUED, self._again.count)
        yield Sample(names.QUEUE_LOST, self._loss.count)

    def send(self, messages: Sequence[Outgoing], then: Callable[[], None]) -> None:
        batch, now, connections = Batch(then), self._clock.now(), self._bus.connections
        held = list[Waiting]()
        for item in messages:
            if isinstance(item, Command):
                waiting = Waiting(item, batch, now, connections)
                if not self._passes(waiting, item):
                    held.append(waiting)
            elif isinstance(item, Free):
                for fair in self._pools.values():
                    fair.free(item.execution_id, item.run_id, item.index)
                if not item.parked:
                    self._limits.free(item)
            elif isinstance(item, Want):
                self._limits.take(item)
            else:
                sent = self._families.admit(item) if isinstance(item, Request) else item
                self._publishing.add(Waiting(sent, batch, now, connections))
        self._pump()
        for waiting in held:
            if waiting.held:
                waiting.let_go()
        batch.taken()

    def _passes(self, waiting: Waiting, item: Command) -> bool:
        """Sent, unless it has to wait until it is its turn."""
        pool = item.pool
        fair = self._pools.get(pool)
        if fair is None:
            fair = self._pools[pool] = Fair()
        key = key_of(item)
        if fair.passes(key, item.root, *self._rooms.bounds(pool)):
            self._publishing.add(waiting)
            return True
        waiting.held = True
        fair.offer(key, waiting, item.priority, item.root)
        return False

    def _pump(self) -> None:
        for pool, fair in self._pools.items():
            if fair.is_holding:
                for waiting in fair.released(*self._rooms.bounds(pool)):
                    waiting.held = False
                    self._publishing.add(waiting)
            else:
                fair.settle()

    def _out(self) -> Iterable[Command]:
        """What should be in the queue or with a worker. Commands held back are left out: they are not lost, and issuing
        them again would send all of them before their turn."""
        for item in self._log.due():
            fair = self._pools.get(item.pool)
            if fair is None or not fair.is_held(key_of(item)):
                yield item

    def _look(self, listened: float) -> None:
        """Called about once a second. `listened`: for how many seconds since the last call beats would have been
        heard."""
        self._takeover.listened(listened)
        self._rooms.forget_silent()
        self._look_at_held()

    def _look_at_held(self) -> None:
        """Finds ends that were missed (rule 3)."""
        now = self._clock.now()
        share = self._log.share()
        # What is held of a partition that went to another scheduler is that one's now.
        late, self._share = now - self._compared > COMPARE_S or share != self._share, share
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
