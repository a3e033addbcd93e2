"""A load from a snapshot and the tail of the log gives the state that the whole log gives."""

from typing import Any

import pytest
from msgspec import Struct, defstruct

from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.engine.core import Core, S
from shared.engine.routing.core import RouterCore
from shared.engine.routing.state import Execution
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.state import Schedule
from shared.errors import Conflict
from shared.events import subjects
from shared.events.record import encode
from shared.runtime.control import snapshots
from shared.runtime.control.loader import Loader
from shared.runtime.control.snapshots import Snapshots
from shared.runtime.control.state_shape import shape
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import catalog
from shared.runtime.stores.plans import Plans
from tests.support.memory_bus import memory_bus
from tests.unit.engine.support import Driver, plan_of, source_of

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


async def brought(run: Driver, bus: MemoryBus) -> Plans:
    """With the plan of the run."""
    plans = Plans(bus)
    await catalog.register(bus, source_of(LOOP).encode(), run.plan)
    await plans.load(run.plan.digest)
    return plans


async def written(run: Driver) -> MemoryBus:
    """The run's log on a memory broker, in one partition."""
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    for record in run.log:
        await bus.append(subjects.event(0, "x1", record.writer), encode(record))
    return bus


async def loaded(bus: MemoryBus, core: Core[S]) -> S:
    state, _ = await Loader(bus, 0, 1, core).load("x1")
    return state


@pytest.mark.parametrize("cut", range(1, 12))
async def test_a_snapshot_taken_anywhere_leads_to_the_same_state(cut: int) -> None:
    run = halfway()
    bus = await written(run)
    plans = await brought(run, bus)
    for core, whole in ((RouterCore(plans), run.state), (SchedulerCore(plans), run.schedule)):
        loader = Loader(bus, 0, 1, core)  # type: ignore[arg-type, var-annotated]  # either core
        mine = {core.writer, *core.listens}
        entries = [(i + 1, r) for i, r in enumerate(run.log[:cut]) if r.writer in mine]
        await loader.snapshots.put("x1", core.fold(core.empty("x1"), entries))  # type: ignore[arg-type]  # its own state
        assert await loaded(bus, core) == whole  # type: ignore[arg-type]  # either core


async def test_an_unreadable_snapshot_is_passed_over() -> None:
    run = halfway()
    bus = await written(run)
    plans = await brought(run, bus)
    own = f"{snapshots.FORMAT} {shape(Execution)}".encode()
    for rubbish in (b"", b"3 {", b"1 {}", b'3 in parts {"slot": "a", "count": 2}', own, own + b"{", own + b" in parts ",
                    own + b'{"execution_id": 5}', own + b' in parts {"slot": "a", "count": 2}'):
        await bus.kv_put(topology.CTX, "x1", rubbish)
        assert await loaded(bus, RouterCore(plans)) == run.state


async def test_a_state_over_a_message_is_kept_in_parts_that_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_RECORD_BYTES", 200)
    run = halfway()
    bus = await written(run)
    core = SchedulerCore(await brought(run, bus))
    mine = Loader(bus, 0, 1, core).snapshots
    await mine.put("x1", core.fold(core.empty("x1"), [(1, run.log[0])]))
    before = set(await bus.kv_all(topology.LOOPS))
    await mine.put("x1", run.schedule)
    keys = set(await bus.kv_all(topology.LOOPS))
    assert mine.weight("x1") == len(keys) - 1 > 3
    assert keys & before == {"x1"}
    assert await loaded(bus, core) == run.schedule
    assert await Loader(bus, 0, 1, core).snapshots.get("x1") == run.schedule
    await bus.kv_put(topology.LOOPS, max(keys), b"torn")
    assert await Loader(bus, 0, 1, core).snapshots.get("x1") is None
    assert await loaded(bus, core) == run.schedule
    await mine.drop("x1")
    assert await bus.kv_all(topology.LOOPS) == {}


async def test_the_log_refuses_a_second_writer_whatever_the_snapshot_says() -> None:
    run = halfway()
    bus = await written(run)
    with pytest.raises(Conflict):
        await bus.append(subjects.event(0, "x1", "router"), b"{}", expected=run.state.seq - 1)


async def test_a_state_over_the_limit_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOT_BYTES", 100)
    run = halfway()
    bus = await written(run)
    await Loader(bus, 0, 1, SchedulerCore(Plans(bus))).snapshots.put("x1", run.schedule)
    assert await bus.kv_all(topology.LOOPS) == {}


class Before(Struct):
    """A state of an earlier version."""

    execution_id: str
    ctx: dict[str, int] = {}
    seq: int = 0
    as_of: int = 0
    n: int = 0


class After(Before):
    """The same, one field later."""

    due_by: str = ""


async def test_a_state_that_went_through_another_version_is_not_taken() -> None:
    """It would have lost what that version does not know, or lack what it did not write."""
    bus = memory_bus()
    old, new = Snapshots(bus, topology.CTX, Before), Snapshots(bus, topology.CTX, After)
    await old.put("x1", Before("x1", seq=4))
    assert await new.get("x1") is None
    await new.put("x1", After("x1", seq=5, due_by="spec.timeout"))
    assert await old.get("x1") is None
    assert await new.get("x1") == After("x1", seq=5, due_by="spec.timeout")


async def test_parts_of_another_version_go_with_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_RECORD_BYTES", 60)
    bus = memory_bus()
    ctx = {f"k{number}": number for number in range(30)}
    old, new = Snapshots(bus, topology.CTX, Before), Snapshots(bus, topology.CTX, After)
    await old.put("x1", Before("x1", ctx))
    assert len(await bus.kv_all(topology.CTX)) > 3
    assert await new.get("x1") is None
    await new.drop("x1")
    assert await bus.kv_all(topology.CTX) == {}


def test_every_difference_is_one_of_shape() -> None:
    def made(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> type[Struct]:
        return defstruct("Before", [("execution_id", str), *fields])

    kinds = [Before, After, Execution, Schedule, made(("n", int)), made(("n", int, 0)), made(("n", int, 1)),
             made(("m", int, 0)), made(("n", str, "")), made(("n", int | None, 0)), made(("n", dict[str, int], {})),
             made(("n", dict[str, str], {})), made(("n", Before)), made(("n", After))]
    assert len({shape(kind) for kind in kinds}) == len(kinds)
    assert shape(made(("n", int, 0))) == shape(made(("n", int, 0)))
