"""Local loops: one command for all iterations, and a worker that keeps to the rules of the loop by itself."""

from typing import Any

import pytest

from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.local_loop import ahead
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
  loop: {in: "{{ workload.items }}", iterator: item, spec: {policy: {exec: local}, SPEC}}
  tool: TOOL
  next:
    arcs:
      - {step: after, args: {stopped: "{{ event.payload.stopped }}"}, when: "{{ event.name == 'loop.done' }}"}
- {step: after, tool: {kind: noop}}
"""
LAST = ('{kind: noop, args: {v: "{{ ctx.last | default(0) }}"}, spec: {policy: {rules: [{else: {then: '
        '{do: continue, set_ctx: {last: "{{ iter.item }}"}}}}]}}}')


def loop(failure: str = "{}", spec: str = "mode: sequential", tool: str = "{kind: noop}", count: int = 6) -> Any:
    source = LOOP.replace("FAILURE", failure).replace("SPEC", spec).replace("TOOL", tool)
    return plan_of(source, f"{{items: {list(range(count))}}}")


def work(*broken: int) -> Any:
    def one(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
        item = names.get("item")
        return failed("x", "no") if item in broken else ok(item)

    return one


def test_all_iterations_are_one_command_and_one_window() -> None:
    run = Driver(loop(), work())
    run.control()
    (command,) = run.queue
    assert (command.index, command.count, command.local.items) == (-1, 6, [0, 1, 2, 3, 4, 5])
    checked(run.run())
    assert [(each.first, each.count) for each in run.find(ev.IterationStarted)] == [(0, 6)]
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.result.value["results"]) == (6, [0, 1, 2, 3, 4, 5])


def test_an_iteration_sees_what_those_before_it_wrote_to_ctx() -> None:
    seen: list[int] = []

    def note(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
        seen.append(names["ctx"].get("last", 0))
        return ok(None)

    checked(Driver(loop(tool=LAST, count=4), note).run())
    assert seen[:4] == [0, 0, 1, 2]


def test_no_iteration_begins_after_more_have_failed_than_the_step_tolerates() -> None:
    run = checked(Driver(loop("{tolerate: 1}"), work(1, 3)).run())
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert (error["index"], error["failed"], error["tolerated"]) == (1, 2, 1)
    assert len(run.find(ev.IterationDone)) == 2


def test_all_iterations_run_with_best_effort() -> None:
    run = checked(Driver(loop("{mode: best_effort}"), work(1, 3)).run())
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.failed) == (6, 2)


@pytest.mark.parametrize("condition", ["last == 2", "count == 3", "results | length == 3", "iter.item == 2"])
def test_the_worker_asks_whether_to_stop_and_the_scheduler_takes_its_word(condition: str) -> None:
    run = checked(Driver(loop(spec=f'stop_when: "{{{{ {condition} }}}}"'), work()).run())
    (halted,), (stopped,), (done,) = run.find(ev.LoopHalted), run.find(ev.LoopStopped), run.find(ev.LoopDone)
    assert (halted.index, halted.next) == (stopped.index, stopped.next) == (2, 3)
    assert (done.count, done.stopped, done.result.value["results"]) == (3, True, [0, 1, 2])


def test_a_condition_that_cannot_be_evaluated_fails_the_step() -> None:
    run = checked(Driver(loop(spec='stop_when: "{{ last + [] }}"'), work()).run())
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert error["message"].startswith("loop.spec.stop_when")


def taken_over(most: int, **fields: Any) -> Driver:
    """A worker does some iterations and is gone; the next one does the rest."""
    run = Driver(loop(**fields), work())
    run.control()
    command = run.queue.pop()
    run.work_through(command, (1, 1), most)
    run.control()
    assert run.queue == []
    run.work_through(command, (1, 2))
    run.control()
    return run


@pytest.mark.parametrize("most", [0, 1, 3, 5])
def test_whoever_takes_over_goes_on_with_what_has_not_ended(most: int) -> None:
    run = checked(taken_over(most).run())
    (done,) = run.find(ev.LoopDone)
    assert done.result.value["results"] == [0, 1, 2, 3, 4, 5]
    assert len(run.find(ev.IterationDone)) == 6


def test_whoever_takes_over_asks_about_what_had_ended_before() -> None:
    """The worker before had no time left to say so."""
    run = Driver(loop(spec='stop_when: "{{ last == 1 }}"'), work())
    run.control()
    command = run.queue.pop()
    run.work_through(command, (1, 1))
    halted = run.log.pop()
    assert isinstance(halted.events[0], ev.LoopHalted)
    run.work_through(command, (1, 2))
    run.control()
    assert run.find(ev.LoopHalted) == [ev.LoopHalted(2, 1)]
    assert run.find(ev.LoopDone)[0].count == 2


def test_an_iteration_of_which_nothing_is_in_the_log_is_not_passed_over() -> None:
    """Of several that were begun at once, the record of a later one may be there and that of an earlier one not."""
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.append("iteration", [ev.StepStarted()], Lease("start:1", "start", (1, 1), "w1"))
    run.append("iteration", [ev.StepStarted()], Lease("start:1", "start", (1, 1), "w1", 2))
    run.work_through(command, (1, 2))
    run.control()
    assert run.find(ev.LoopDone)[0].result.value["results"] == [0, 1, 2, 3, 4, 5]


def test_what_an_earlier_worker_says_after_the_loop_was_taken_over_does_not_count() -> None:
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.work_through(command, (1, 2), 1)
    before = run.schedule
    late = Lease("start:1", "start", (1, 1), "w0", 4)
    run.append("iteration", [ev.StepStarted(), ev.IterationDone()], late)
    assert run.schedule.loops["start:1"].results.get(4) is None
    assert run.schedule.loops["start:1"].ended == before.loops["start:1"].ended == 1


def test_a_cancelled_local_loop_is_over_when_its_worker_says_so() -> None:
    run = Driver(loop(), work())
    run.control()
    command = run.queue.pop()
    run.work_through(command, (1, 1), 2)
    cancelled = Record("x1", "router", 99, run.log[-1].ts, (ev.StepCancelled("start:1", "start", "", "default"),))
    state = evolve(run.schedule, [(50, cancelled)])
    assert scheduling.decide(lambda _: run.plan, state, 0.0) == []
    lease = Lease("start:1", "start", (1, 1), "w1")
    state = evolve(state, [(51, Record("x1", "iteration", 2, run.log[-1].ts, (ev.LoopHalted(2),), 0, lease))])
    assert [type(event) for event in scheduling.decide(lambda _: run.plan, state, 0.0)] == [ev.StepCancelled]


def test_a_lost_command_of_a_local_loop_is_issued_again_until_the_loop_is_over() -> None:
    run = Driver(loop(spec='stop_when: "{{ last == 1 }}"'), work())
    run.control()
    (again,) = scheduling.outstanding(lambda _: run.plan, run.schedule)
    assert (again.index, again.fresh, again.cause) == (-1, False, run.seq)
    run.work_through(run.queue.pop())
    assert scheduling.outstanding(lambda _: run.plan, run.schedule) == []


TWO = "[{name: one, kind: shell, cmds: [x]}, {name: two, kind: noop}]"


@pytest.mark.parametrize(("begun", "ended", "most", "calls"), [
    ((), 0, 2, ["one"]),
    ((0, 1), 0, 2, ["two", "two"]),
    ((0, 1), 0, 3, ["two", "two", "one"]),
    ((0, 1), 4, 3, ["two", "two"]),  # there is no other one to begin
    ((), 6, 3, []),
])
def test_what_is_called_first_of_a_loop_that_is_taken_over(
    begun: tuple[int, ...], ended: int, most: int, calls: list[str]
) -> None:
    plan = loop(tool=TWO)
    run = Driver(plan, work())
    run.control()
    (command,) = run.queue
    done = History((ev.TaskDone("one", 1, ok(None), "continue"),))
    ends = tuple((5 - k, ev.IterationDone()) for k in range(ended))
    known = LoopHistory(begun=dict.fromkeys(begun, done), ended=ends)
    assert [task and task.name for task in ahead(plan.steps["start"], command, known, most)] == calls
