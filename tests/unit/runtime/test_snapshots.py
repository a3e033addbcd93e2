"""A load from a snapshot and the tail of the log gives the state that the whole log gives."""

import pytest

from services.router.core import RouterCore
from services.scheduler.core import SchedulerCore
from shared.bus import topology
from shared.bus.memory import MemoryBus
from shared.bus.memory_broker import MemoryBroker
from shared.errors import Conflict
from shared.events import subjects
from shared.events.record import encode
from shared.runtime.clock import SystemClock
from shared.runtime.core import Actor, Core, S
from shared.runtime.plans import Plans
from shared.runtime.shell import Shell
from tests.unit.engine.support import Driver, plan_of

LOOP = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: each, args: {a: 1}}]}
- step: each
  loop: {in: "{{ range(6) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ i }}"}}}}}]}}
"""


def halfway() -> Driver:
    run = Driver(plan_of(LOOP))
    run.control()
    for _ in range(4):
        command = run.queue.pop(0)
        run.report(command, run.perform(command))
        run.control()
    return run


def brought(run: Driver, plans: Plans) -> Plans:
    plans._plans[run.plan.digest] = run.plan
    return plans


async def written(run: Driver) -> MemoryBus:
    """The run's log on a memory broker, in one partition."""
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    for record in run.log:
        await bus.append(subjects.event(0, "x1", record.writer), encode(record))
    return bus


async def loaded(bus: MemoryBus, core: Core[S], plans: Plans) -> S:
    shell = Shell(bus, SystemClock(), 0, core, plans)
    actor: Actor[S] = Actor("x1")
    await shell._load(actor)
    assert actor.state is not None
    return actor.state


@pytest.mark.parametrize("cut", range(1, 12))
async def test_a_snapshot_taken_anywhere_leads_to_the_same_state(cut: int) -> None:
    run = halfway()
    bus = await written(run)
    plans = brought(run, Plans(bus))
    for core, whole in ((RouterCore(plans), run.state), (SchedulerCore(plans), run.schedule)):
        shell = Shell(bus, SystemClock(), 0, core, plans)  # type: ignore[arg-type, var-annotated]  # either core
        mine = {core.writer, *core.listens}
        entries = [(i + 1, r) for i, r in enumerate(run.log[:cut]) if r.writer in mine]
        await shell.snapshots.put("x1", core.fold(core.empty("x1"), entries))  # type: ignore[arg-type]  # its own state
        assert await loaded(bus, core, plans) == whole  # type: ignore[arg-type]  # either core


async def test_an_unreadable_snapshot_is_passed_over() -> None:
    run = halfway()
    bus = await written(run)
    plans = brought(run, Plans(bus))
    for rubbish in (b"", b"1 {", b'1 {"execution_id": 5}', b"0 {}"):
        await bus.kv_put(topology.CTX, "x1", rubbish)
        assert await loaded(bus, RouterCore(plans), plans) == run.state


async def test_the_log_refuses_a_second_writer_whatever_the_snapshot_says() -> None:
    run = halfway()
    bus = await written(run)
    with pytest.raises(Conflict):
        await bus.append(subjects.event(0, "x1", "router"), b"{}", expected=run.state.seq - 1)
