"""A snapshot is used only if it can be right."""

from services.scheduler.core import SchedulerCore
from shared.bus import topology
from shared.bus.memory import MemoryBroker, MemoryBus
from shared.engine.schedule import evolve
from shared.events import model as ev
from shared.events import subjects
from shared.events.outcome import Result
from shared.events.record import Lease, Record, encode
from shared.runtime.clock import SystemClock
from shared.runtime.loading import Loader
from shared.runtime.plans import Plans

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
    loader = Loader(bus, 0, core)
    await loader.snapshots.put("x", blind)
    state, saved = await loader.load("x")
    assert saved
    assert state.loops["start:1"].results.get(0) == Result(8)
