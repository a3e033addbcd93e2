"""Loops over rows that are claimed in frames while they run."""

from typing import Any

import pytest

from shared.engine.scheduling import cursor_rows, nesting
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling.state import evolve
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Lease, Record
from tests.unit.engine.scheduling.test_nesting import checked
from tests.unit.engine.support import Driver, plan_of

LOOP = """
- step: start
  spec: {policy: {failure: FAILURE}}
  loop:
    cursor: {kind: postgres, auth: db, claim: "SELECT {{ claim.size }}", frame: FRAME}
    iterator: row
    spec: SPEC
  tool: {kind: noop}
  next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}"}]}
- {step: after, tool: {kind: noop}}
"""


def loop(failure: str = "{}", spec: str = "{mode: parallel, max_in_flight: 2}", frame: int = 3) -> Any:
    return plan_of(LOOP.replace("FAILURE", failure).replace("SPEC", spec).replace("FRAME", str(frame)))


def rows(count: int) -> list[dict[str, int]]:
    return [{"k": number} for number in range(count)]


def work(*broken: int) -> Any:
    def one(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step != "start":
            return ok(None)
        return failed("x", "no") if names["row"]["k"] in broken else ok([names["row"]["k"], names["iter"]["count"]])

    return one


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_every_row_is_an_iteration_and_a_frame_without_rows_is_the_last(count: int) -> None:
    run = checked(Driver(loop(), work(), rows=rows(count)).run())
    (done,) = run.find(ev.LoopDone)
    assert [found[0] for found in done.result.value["results"]] == list(range(count))
    claimed = [frame.count for frame in run.find(ev.FrameClaimed)]
    assert claimed[-1] == 0
    assert 0 not in claimed[:-1]
    assert sum(claimed) == count


def test_count_of_an_iteration_are_the_rows_claimed_up_to_its_frame() -> None:
    run = checked(Driver(loop(), work(), rows=rows(4)).run())
    assert run.find(ev.LoopDone)[0].result.value["results"] == [[0, 3], [1, 3], [2, 3], [3, 4]]


def test_the_next_frame_is_claimed_when_fewer_rows_wait_than_may_be_in_flight() -> None:
    run = Driver(loop(frame=4), work(), rows=rows(20))
    run.control()
    run.do(run.queue.pop())
    run.control()
    assert [command.index for command in run.queue] == [0, 1]
    run.do(run.queue.pop(0))
    run.control()
    assert [command.index for command in run.queue] == [1, 2, -3]


def test_the_rows_of_a_frame_are_kept_no_longer_than_they_may_be_needed() -> None:
    run = Driver(loop(frame=2), work(), rows=rows(40))
    most = 0
    run.control()
    while run.queue:
        run.do(run.queue.pop(0))
        run.control()
        for state in run.schedule.loops.values():
            most = max(most, len(state.claims.frames))
    assert run.find(ev.LoopDone)[0].count == 40
    assert most <= 3


def test_a_share_of_failures_is_one_of_the_rows_claimed_so_far() -> None:
    run = checked(Driver(loop('{tolerate: "50%"}', frame=2), work(0, 4), rows=rows(6)).run())
    assert run.find(ev.LoopDone)[0].failed == 2
    run = checked(Driver(loop('{tolerate: "50%"}', frame=2), work(0, 1), rows=rows(6)).run())
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert (error["failed"], error["tolerated"]) == (2, 1)


def test_a_loop_that_was_stopped_claims_no_further_frame() -> None:
    plan = loop(spec='{stop_when: "{{ iter.row.k == 3 }}"}', frame=2)
    run = checked(Driver(plan, work(), rows=rows(100)).run())
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.stopped) == (4, True)
    assert len(run.find(ev.FrameStarted)) <= 3


def test_a_claim_that_failed_fails_the_step_with_its_error() -> None:
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.report(command, [ev.StepStarted(), ev.FrameFailed({"kind": "postgres", "message": "no such table"})])
    run.control()
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert error == {"kind": "postgres", "message": "no such table", "frame": 0}
    checked(run)


def test_a_frame_is_answered_once_and_by_the_latest_worker() -> None:
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.append("iteration", [ev.StepStarted()], Lease("start:1", "start", (1, 2), "w2", -2))
    for epoch, found in (((1, 1), rows(1)), ((1, 2), rows(2)), ((1, 2), rows(3))):
        events = [ev.FrameClaimed(len(found), found)]
        run.append("iteration", events, Lease("start:1", "start", epoch, "w", command.index))
    assert run.schedule.loops["start:1"].claims.claimed == 2


def test_rows_that_may_go_on_for_ever_end_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_rows, "MAX_ITERATIONS", 5)
    run = checked(Driver(loop(), work(), rows=rows(100)).run())
    assert [frame.size for frame in run.find(ev.FrameStarted)] == [3, 2]
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert error["kind"] == "limit"
    assert len(run.find(ev.IterationDone)) == 5
    assert nesting.MAX_ITERATIONS == 1_000_000


def test_a_lost_claim_is_issued_again_until_it_is_answered() -> None:
    run = Driver(loop(), work(), rows=rows(1))
    run.control()
    (again,) = scheduling.outstanding(lambda _: run.plan, run.schedule)
    assert (again.index, again.count, again.fresh) == (-2, 3, False)
    run.do(run.queue.pop())
    assert scheduling.outstanding(lambda _: run.plan, run.schedule) == []


def test_a_cancelled_loop_waits_for_the_claim_that_a_worker_has() -> None:
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.report(command, [ev.StepStarted()])
    cancelled = Record("x1", "router", 99, run.log[-1].ts, (ev.StepCancelled("start:1", "start", "", "default"),))
    state = evolve(run.schedule, [(50, cancelled)])
    assert scheduling.decide(lambda _: run.plan, state, 0.0) == []
    lease = Lease("start:1", "start", (1, 1), "w1", -2)
    failed_ = ev.FrameFailed({"kind": "cancelled"})
    state = evolve(state, [(51, Record("x1", "iteration", 2, run.log[-1].ts, (failed_,), 0, lease))])
    assert [type(event) for event in scheduling.decide(lambda _: run.plan, state, 0.0)] == [ev.StepCancelled]
