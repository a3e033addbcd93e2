"""What the checker says of local loops, claimed rows and iterations that were taken over, when the log is not right."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.answers.verify.verify import verify
from shared.events import model as ev
from shared.events.record import Lease, Record
from tests.unit.engine.pipeline import test_local_loops
from tests.unit.engine.scheduling import test_carried_loop, test_cursor_loops
from tests.unit.engine.support import Driver, plan_of

PARALLEL = "mode: parallel, max_in_flight: 2"
START = (ev.StepStarted(),)


def local(*records: tuple[int, tuple[int, int], tuple[ev.Event, ...]]) -> list[str]:
    """A local loop whose worker writes these records: index, epoch, events."""
    run = Driver(test_local_loops.loop(spec=PARALLEL), test_local_loops.work())
    run.control()
    for index, epoch, events in records:
        run.append("iteration", list(events), Lease("start:1", "start", epoch, "w1", index))
    return said(run)


def said(run: Driver, log: list[Record] | None = None) -> list[str]:
    found = verify("x1", list(enumerate(log or run.log, 1)), lambda _: run.plan)
    return [violation.message for violation in found if violation.rule == "loop"]


def unfit(run: Driver) -> list[str]:
    """Why records count for nothing."""
    found = verify("x1", list(enumerate(run.log, 1)), lambda _: run.plan)
    return [violation.message.partition("for nothing: ")[2] for violation in found if violation.rule == "record"]


def test_a_local_loop_never_has_more_iterations_at_a_time_than_it_may() -> None:
    held = (-1, (1, 1), START)
    end = (ev.StepStarted(), ev.IterationFailed({"kind": "cancelled"}))
    begun = [(index, (1, 1), START) for index in range(2)]
    assert local(held, *begun) == []
    assert local(held, *begun, (2, (1, 1), START)) == ["loop start:1 has 3 iterations in flight, over 2"]
    assert local(held, begun[0], (1, (1, 1), end), (2, (1, 1), START)) == []
    assert local(held, *begun, (-1, (1, 2), START), (0, (1, 2), START), (2, (1, 2), START)) == []


def test_an_iteration_of_a_local_loop_runs_under_the_hold_of_its_loop() -> None:
    assert local((0, (1, 1), START)) == ["iteration start:1[0] runs under no hold of its loop"]
    late = local((-1, (1, 2), START), (0, (1, 1), START))
    assert late == []  # it does not count


def test_only_a_local_loop_is_held_as_a_whole() -> None:
    run = Driver(test_carried_loop.loop(), test_carried_loop.work())
    run.control()
    run.append("iteration", list(START), Lease("start:1", "start", (1, 1), "w1"))
    assert unfit(run) == ["loop 'start:1' is nobody's as a whole"]


def cursor(change: Callable[[list[Record]], list[Record]]) -> list[str]:
    run = Driver(test_cursor_loops.loop(), test_cursor_loops.work(), rows=test_cursor_loops.rows(4)).run()
    assert said(run) == []
    return said(run, change(run.log))


def without(kind: type[Any], number: int) -> Callable[[list[Record]], list[Record]]:
    """The log without one of the events of that kind."""

    def change(log: list[Record]) -> list[Record]:
        found = [record for record in log if any(isinstance(event, kind) for event in record.events)]
        return [record for record in log if record is not found[number]]

    return change


def test_a_loop_is_not_done_while_its_cursor_may_have_more_rows() -> None:
    assert "loop start:1 is done, and its cursor may have more rows" in cursor(without(ev.FrameClaimed, -1))


def test_iterations_are_of_rows_that_were_claimed() -> None:
    assert any("of 0" in message for message in cursor(without(ev.FrameClaimed, 0)))


def test_a_frame_that_nobody_asked_for_is_no_answer() -> None:
    run = Driver(test_cursor_loops.loop(), test_cursor_loops.work())
    run.control()
    run.append("iteration", [ev.StepStarted()], Lease("start:1", "start", (1, 1), "w1", -7))
    assert unfit(run) == ["'start:1.f5' was not asked for"]


@pytest.mark.parametrize("index", [0, 3])
def test_an_iteration_that_was_taken_over_does_not_run_again(index: int) -> None:
    first = Driver(test_carried_loop.loop(), test_carried_loop.work(2)).run()
    run = test_carried_loop.rerun_of(first, test_carried_loop.work())
    run.control()
    assert said(run) == []
    done = set(test_carried_loop.done_in(first))
    run.append("iteration", [ev.StepStarted()], Lease("start:1", "start", (1, 1), "w1", index))
    assert said(run) == ([f"iteration start:1[{index}] reports, but was never started"] if index in done else [])


def test_a_claim_may_not_end_as_a_run() -> None:
    run = Driver(plan_of("- {step: start, tool: {kind: noop}}"))
    run.append("iteration", [ev.StepStarted(), ev.IterationDone()], Lease("start:1", "start", (1, 1), "w1", -2))
    assert unfit(run) == ["'start:1.f0' is not reported on by iteration"]
