"""Whether a record of a lease fits: by the step and pool of its run, by what was started, by what such a lease can
say, and by the order of the log, however it is folded."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.engine.leases.lease_fit import Known, child_of, fitting, misfit, was_scheduled
from shared.engine.routing import state as execution
from shared.engine.routing.state import Execution
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.state import Schedule
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import Lease, Record
from shared.events.stamp import stamp

TS = stamp(1_800_000_000.0)
LEASE = Lease("start:1", "start", (5, 1), "w", pool="default")
PLAIN = Known("start", "default")
LOOP = Known(
    step="start", pool="default", loop=True, since=0, local=False, begun=3, frames=1, rows=10,
)
LOCAL = replace(LOOP, local=True)


def said(*events: ev.Event, writer: Any = "worker", **fields: Any) -> Record:
    return Record("x", writer, 1, TS, events, lease=replace(LEASE, **fields))


def waits(child: str) -> ev.TaskWaiting:
    return ev.TaskWaiting("call", 1, "call/1", ev.Child(child, "some/book"))


@pytest.mark.parametrize(("record", "known"), [
    (said(ev.StepStarted(), ev.StepDone()), PLAIN),
    (said(ev.StepDone(), pool=""), PLAIN),  # of a log from before records named their pool
    (said(waits(child_of("x", LEASE, "call/1")), writer="waiting"), PLAIN),
    (said(ev.IterationDone(), writer="iteration", index=2), LOOP),
    (said(ev.FrameClaimed(2, [1, 2]), writer="iteration", index=-2), LOOP),
    (said(ev.LoopHalted(2), writer="iteration"), LOCAL),
])
def test_what_workers_write_fits(record: Record, known: Known) -> None:
    assert misfit(9, record, known) == ""


@pytest.mark.parametrize(("record", "known", "reason"), [
    (said(ev.StepDone()), None, "was not scheduled"),
    (said(ev.StepDone()), Known("start", ""), "was not scheduled"),
    (said(ev.StepDone(), step="other"), PLAIN, "is one of step 'start'"),
    (said(ev.StepDone(), pool="other"), PLAIN, "is for pool 'default'"),
    (said(ev.StepDone()), replace(PLAIN, since=9), "was written before"),
    (said(ev.StepDone()), LOOP, "is not reported on by worker"),
    (said(ev.IterationDone(), writer="iteration", index=0), PLAIN, "is not reported on by iteration"),
    (said(ev.IterationDone(), writer="iteration", index=3), LOOP, "was not started"),
    (said(ev.FrameClaimed(), writer="iteration", index=-3), LOOP, "was not asked for"),
    (said(ev.FrameClaimed(2, [1]), writer="iteration", index=-2), LOOP, "has 2 rows"),
    (said(ev.FrameClaimed(11, [0] * 11), writer="iteration", index=-2), LOOP, "has 11 rows"),
    (said(ev.LoopHalted(2), writer="iteration"), LOOP, "nobody's as a whole"),
    (said(ev.LoopHalted(7), writer="iteration"), LOCAL, "halts at 7"),
    (said(ev.StepDone(), writer="iteration", index=0), LOOP, "has no step.done"),
    (said(ev.StepDone(), ev.StepStarted()), PLAIN, "goes on after its step.done"),
    (said(waits("somebody-elses"), writer="waiting"), PLAIN, "not its child"),
    (said(ev.StepDone(Result(5, "loop"))), PLAIN, "in the shape of a loop"),
])
def test_what_no_worker_writes_does_not_fit(record: Record, known: Known | None, reason: str) -> None:
    assert reason in misfit(9, record, known)


@pytest.mark.parametrize(("run_id", "was"), [
    ("a:1", True), ("a:2", True), ("a:3", False), ("a:0", False), ("a", False), ("a:", False), ("a:-1", False),
    ("b:1", False), ("a:²", False), ("a:" + "1" * 5000, False),
])
def test_runs_are_numbered_by_step(run_id: str, was: bool) -> None:
    assert was_scheduled({"a": 2}, run_id) is was


def test_a_record_before_its_run_counts_for_nothing_in_whatever_order_it_is_folded() -> None:
    scheduled = Record("x", "router", 1, TS, (ev.StepScheduled("start:1", "start", (), "d", "default"),))
    early, entry = said(ev.StepDone()), (11, scheduled)
    for order in ([(10, early), entry], [entry, (10, early)]):
        state = Execution("x")
        for seq, record in order:
            state = execution.evolve(state, record, seq)
        assert state.runs["start:1"].end is None
    assert "written before" in execution.unfit(state, early, 10)
    assert list(fitting([(10, early), entry])) == [entry]


def test_an_iteration_before_its_window_counts_for_nothing_in_whatever_order_it_is_folded() -> None:
    scheduled = Record("x", "router", 1, TS, (ev.StepScheduled("start:1", "start", (), "d", "default", True),))
    window = (ev.LoopStarted("start:1", "start", 3, [1, 2, 3]), ev.IterationStarted("start:1", 0, 3))
    started, early = Record("x", "scheduler", 1, TS, window), said(ev.IterationDone(), writer="iteration", index=1)
    for order in ([(4, scheduled), (10, early), (11, started)], [(4, scheduled), (11, started), (10, early)]):
        state = schedule.evolve(Schedule("x"), order)
        assert (state.loops["start:1"].ended, sorted(state.loops["start:1"].live)) == (0, [0, 1, 2])
        assert schedule.unfit(state, early, 10)
