"""What the log says of a run that may have been held before: where to go on, or that it is over."""

import asyncio
from weakref import WeakValueDictionary

from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.plan import Step
from shared.engine import pipeline
from shared.engine.pipeline import Progress
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import Epoch, Record, decode
from shared.events.stamp import seconds

TERMINAL = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed


class History(Struct, frozen=True):
    """What counts of a run, in log order; `epoch` is the highest that holds it."""

    events: tuple[ev.Event, ...] = ()
    epoch: Epoch = (0, 0)
    over: bool = False
    began: float | None = None

    def progress(self, step: Step, start: Progress) -> Progress:
        for event in self.events:
            start = pipeline.evolve(step, start, event)
        return start


class _Ask:
    """What the log says of a run since its command's cause, once someone has looked."""

    __slots__ = ("after", "key", "records", "seq")

    def __init__(self, command: Command) -> None:
        self.key, self.after, self.seq = (command.run_id, command.index), command.cause, 0
        self.records: list[Record] | None = None


class Histories:
    """Reads what the log says of runs. The iterations of a loop share a subject, and after a restart many of them
    are claimed at once: one read answers everyone who asked before it began."""

    def __init__(self, bus: Bus, partitions: int) -> None:
        self._bus, self._partitions = bus, partitions
        self._asks: dict[tuple[str, str], list[_Ask]] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def read(self, command: Command) -> History:
        own = subjects.WORKER if command.index < 0 else subjects.ITERATION
        subject, ask = (command.execution_id, own), _Ask(command)
        self._asks.setdefault(subject, []).append(ask)
        lock = self._locks.get(subject)
        if lock is None:
            lock = self._locks[subject] = asyncio.Lock()
        async with lock:
            if ask.records is None:
                await self._look(*subject, {ask, *self._asks.pop(subject, [])})
        assert ask.records is not None
        if command.since and ask.seq < command.since:
            raise Unavailable("the log does not show the end of the wait yet")
        return accept(ask.records, command.run_id, command.index)

    async def _look(self, execution_id: str, own: str, asks: set[_Ask]) -> None:
        """If this fails, each of the others looks for itself when its turn comes."""
        partition = subjects.partition_of(execution_id, self._partitions)
        writers = (own, subjects.WAITING, subjects.SCHEDULER)
        filters = [subjects.event(partition, execution_id, writer) for writer in writers]
        after = min(ask.after for ask in asks)
        messages = await self._bus.read(topology.events_stream(partition), filters, after=after)
        known: dict[tuple[str, int], list[Record]] = {}
        for message in messages:
            record = decode(message.data)
            for key in _about(record):
                known.setdefault(key, []).append(record)
        for ask in asks:
            ask.records, ask.seq = known.get(ask.key, []), messages[-1].seq if messages else 0


def _about(record: Record) -> set[tuple[str, int]]:
    """The runs a record speaks of."""
    if record.lease is not None:
        return {(record.lease.run_id, record.lease.index)}
    return {(event.run_id, event.index) for event in record.events if isinstance(event, ev.TaskResumed)}


def accept(records: list[Record], run_id: str, index: int) -> History:
    """The fence: a record counts if no higher epoch came before it, once, and until the run is over. The
    end of a wait is the scheduler's word and counts as it is."""
    kept: list[ev.Event] = []
    epoch: Epoch = (0, 0)
    n = 0
    began: float | None = None
    for record in records:
        lease = record.lease
        if lease is None:
            kept += [event for event in record.events if _resumes(event, run_id, index)]
            continue
        if lease.run_id != run_id or lease.index != index or lease.epoch < epoch:
            continue
        if lease.epoch > epoch:
            epoch, n = lease.epoch, 0
        if record.n <= n:
            continue
        n = record.n + len(record.events) - 1
        began = began or seconds(record.ts)
        kept += record.events
        if isinstance(record.events[-1], TERMINAL):
            return History(tuple(kept), epoch, True, began)
    return History(tuple(kept), epoch, False, began)


def _resumes(event: ev.Event, run_id: str, index: int) -> bool:
    return isinstance(event, ev.TaskResumed) and (event.run_id, event.index) == (run_id, index)
