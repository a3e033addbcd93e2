"""A snapshot is used only if it can be right, and a read only if it shows what must be there."""

from collections.abc import Sequence

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.ports import Message
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.state import evolve
from shared.errors import Corrupt, Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.outcome import Result
from shared.events.record import Lease, Record, encode
from shared.runtime.control.loader import Loader
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores.plans import Plans

TS = "2026-01-01T00:00:00.000000Z"


async def test_a_snapshot_that_missed_an_own_decision_is_not_used() -> None:
    bus = MemoryBus(MemoryBroker(SystemClock(), topology.wanted(partitions=1)), "test")
    core = SchedulerCore(Plans(bus))
    scheduled = ev.StepScheduled("start:1", "start", ("t1",), "digest", "default", loop=True)
    history = [
        Record("x", "router", 1, TS, (scheduled,)),
        Record("x", "scheduler", 1, TS,
               (ev.LoopStarted("start:1", "start", 1, [7]), ev.IterationStarted("start:1", 0, 1))),
        Record("x", "iteration", 1, TS, (ev.StepStarted(), ev.IterationDone(Result(8))),
               lease=Lease("start:1", "start", (1, 1), "w", 0)),
    ]
    for record in history:
        await bus.append(subjects.event(0, "x", record.writer), encode(record))
    blind = evolve(core.empty("x"), [(1, history[0]), (3, history[2])])
    loader = Loader(bus, 0, 1, core)
    await loader.snapshots.put("x", blind)
    state, saved = await loader.load("x")
    assert saved
    assert state.loops["start:1"].results.get(0) == Result(8)


class Holey(MemoryBus):
    """Its next reads miss the messages with these sequences: more than a bus may do."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker, "test")
        self.missing: list[set[int]] = []

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        found = await super().read(stream, filters, after)
        missing = self.missing.pop(0) if self.missing else set()
        return [message for message in found if message.seq not in missing]


async def _holey() -> tuple[Holey, SchedulerCore]:
    bus = Holey(MemoryBroker(SystemClock(), topology.wanted(partitions=1)))
    one = ev.StepScheduled("start:1", "start", ("t1",), "digest", "default", loop=True)
    two = ev.StepScheduled("start:2", "start", ("t2",), "digest", "default", loop=True)
    started = [ev.LoopStarted("start:1", "start", 1, [7]), ev.IterationStarted("start:1", 0, 1)]
    history = [
        Record("x", "router", 1, TS, (one,)), Record("x", "scheduler", 1, TS, (started[0],)),
        Record("x", "scheduler", 2, TS, (started[1],)), Record("x", "router", 2, TS, (two,)),
    ]
    for record in history:
        await bus.append(subjects.event(0, "x", record.writer), encode(record))
    return bus, SchedulerCore(Plans(bus))


async def test_a_read_without_a_message_that_was_delivered_is_not_believed() -> None:
    bus, core = await _holey()
    loader = Loader(bus, 0, 1, core)
    for missing in (1, 4):
        bus.missing = [{missing}]
        with pytest.raises(Unavailable, match="delivered"):
            await loader.load("x", delivered=(1, 4))
    state, _ = await loader.load("x", delivered=(1, 4))
    assert (state.as_of, state.seq) == (4, 3)


async def test_a_read_with_a_gap_between_own_records_is_repeated_before_the_log_is_called_corrupt() -> None:
    bus, core = await _holey()
    loader = Loader(bus, 0, 1, core)
    bus.missing = [{2}]
    state, _ = await loader.load("x")
    assert (state.n, state.seq) == (2, 3)
    bus.missing = [{2}, {2}]
    with pytest.raises(Corrupt, match="gap"):
        await loader.load("x")
