"""The scheduling decider: windows, loop.done, failure modes, ctx in loops, and commands from the log."""

from typing import Any

import pytest

from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling.state import Schedule, evolve, unfit
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Lease, Record
from tests.unit.engine.support import NOW, Driver, plan_of

LOOP = """
- step: start
  spec: {policy: {failure: {mode: FAILURE}}}
  loop:
    in: "{{ workload.items }}"
    iterator: item
    spec: {mode: MODE, max_in_flight: 3}
  tool: {kind: noop}
  next:
    arcs:
      - {step: after, when: "{{ event.name == 'loop.done' }}", args: {failed: "{{ event.payload.failed }}"}}
- {step: after, tool: {kind: noop}}
"""


def loop(mode: str = "parallel", failure: str = "fail_fast", items: str = "[10, 20, 30, 40, 50]") -> Any:
    text = LOOP.replace("FAILURE", failure).replace("MODE", mode)
    if mode == "sequential":
        text = text.replace(", max_in_flight: 3", "")
    return plan_of(text, f"{{items: {items}}}")


def echo(step: str, _task: str, names: dict[str, Any]) -> Outcome:
    return ok(names["item"] if step == "start" else None)


def test_a_parallel_loop_never_has_more_than_max_in_flight_at_once() -> None:
    run = Driver(loop(), echo)
    run.control()
    assert [c.index for c in run.queue] == [0, 1, 2]
    command = run.queue.pop(1)
    run.report(command, run.perform(command))
    run.control()
    assert [c.index for c in run.queue] == [0, 2, 3]


def test_a_sequential_loop_runs_one_iteration_after_the_other() -> None:
    run = Driver(loop("sequential"), echo)
    run.control()
    seen = []
    while run.queue and run.queue[0].index >= 0:
        assert len(run.queue) == 1
        command = run.queue.pop()
        seen.append(command.index)
        run.report(command, run.perform(command))
        run.control()
    assert seen == [0, 1, 2, 3, 4]


def test_loop_done_comes_once_after_the_last_iteration_with_results_in_index_order() -> None:
    run = Driver(loop(), echo).run(choose=lambda n: n - 1)
    (done,) = run.find(ev.LoopDone)
    assert done.result.value == {"results": [10, 20, 30, 40, 50], "count": 5, "failed": 0}
    last = max(i for i, r in enumerate(run.log) if r.writer == "iteration")
    assert next(i for i, r in enumerate(run.log) if done in r.events) > last
    assert run.steps() == ["start", "after"]


def test_an_empty_collection_is_done_at_once() -> None:
    run = Driver(loop(items="[]"), echo).run()
    assert run.find(ev.LoopDone)[0].count == 0
    assert run.steps() == ["start", "after"]


def some_fail(step: str, _task: str, names: dict[str, Any]) -> Outcome:
    if step == "start" and names["item"] in (20, 40):
        return failed("boom", f"no {names['item']}")
    return ok(names.get("item"))


def test_fail_fast_fails_the_step_with_the_first_failed_iteration() -> None:
    run = Driver(loop(), some_fail).run()
    assert run.find(ev.LoopDone) == []
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert (run.state.error["kind"], run.state.error["index"]) == ("boom", 1)


def test_best_effort_runs_all_and_tells_the_failures() -> None:
    run = Driver(loop(failure="best_effort"), some_fail).run()
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.failed) == (5, 2)
    assert [f["index"] for f in done.failures] == [1, 3]
    assert done.result.value["results"] == [10, None, 30, None, 50]
    assert run.find(ev.TokenCreated)[-1].args == {"failed": 2}


def test_a_collection_that_is_not_a_list_fails_the_step() -> None:
    run = Driver(loop(items="{a: 1}"), echo).run()
    assert run.state.error is not None
    assert run.state.error["kind"] == "loop"
    assert "must be a list, not dict" in run.state.error["message"]


def test_a_missing_collection_fails_the_step_with_kind_template() -> None:
    text = LOOP.replace("FAILURE", "fail_fast").replace("MODE", "parallel")
    run = Driver(plan_of(text)).run()
    assert run.state.error is not None
    assert run.state.error["kind"] == "template"


WRITES = """
- step: start
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: MODE}}
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: PATCH}}}]}}
"""


def writes(mode: str, patch: str) -> Driver:
    plan = plan_of(WRITES.replace("MODE", mode).replace("PATCH", patch), "{items: [1, 2, 3]}")
    return Driver(plan, echo).run()


def test_a_second_plain_write_of_a_key_fails_that_iteration_of_a_parallel_loop() -> None:
    run = writes("parallel", '{last: "{{ item }}"}')
    (done,) = run.find(ev.LoopDone)
    assert [f["error"]["kind"] for f in done.failures] == ["ctx_conflict", "ctx_conflict"]
    assert run.state.ctx == {"last": 1}
    failed = [(e.index, e.error["kind"]) for e in run.find(ev.IterationFailed)]
    assert failed == [(1, "ctx_conflict"), (2, "ctx_conflict")]


def test_in_a_sequential_loop_the_last_write_wins() -> None:
    assert writes("sequential", '{last: "{{ item }}"}').state.ctx == {"last": 3}


def test_reducers_are_always_allowed_in_parallel_loops() -> None:
    run = writes("parallel", '{sum: {$add: "{{ item }}"}, all: {$append: "{{ item }}"}}')
    assert run.find(ev.LoopDone)[0].failed == 0
    assert run.state.ctx == {"sum": 6, "all": [1, 2, 3]}


def test_iterations_of_a_sequential_loop_see_what_earlier_ones_wrote() -> None:
    seen = []

    def work(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
        seen.append(names["ctx"].get("n", 0))
        return ok()

    text = WRITES.replace("MODE", "sequential").replace("PATCH", '{n: "{{ (ctx.n | default(0)) + 1 }}"}')
    Driver(plan_of(text, "{items: [1, 2, 3]}"), work).run()
    assert seen == [0, 1, 2]


def test_a_report_comes_twice_and_counts_once() -> None:
    run = Driver(loop(items="[1, 2]"), echo)
    run.control()
    first = run.queue.pop(0)
    run.report(first, run.perform(first))
    run.report(first, run.perform(first), epoch=(5, 1))
    run.control()
    assert run.find(ev.LoopDone) == []
    second = run.queue.pop(0)
    run.report(second, run.perform(second))
    run.control()
    assert run.find(ev.LoopDone)[0].result.value["results"] == [1, 2]


def test_outstanding_lists_exactly_what_no_terminal_answers() -> None:
    run = Driver(loop(), echo)
    run.control()
    done = run.queue.pop(0)
    run.report(done, run.perform(done))
    run.control()
    due = scheduling.outstanding(lambda _: run.plan, run.schedule)
    assert [c.index for c in due] == [1, 2, 3]
    assert not any(c.fresh for c in due)
    finished = Driver(loop(), echo).run()
    assert scheduling.outstanding(lambda _: finished.plan, finished.schedule) == []


def test_the_wait_of_one_iteration_changes_no_command_of_another() -> None:
    """What never waited is sent under one id, fresh or again, so that the queue accepts it once."""
    run = Driver(loop(), echo)
    run.control()
    waits = run.queue.pop(0)
    run.append("waiting", [ev.StepStarted(), ev.TaskStarted("start", 1), ev.TaskWaiting("start", 1, "start/1")],
               Lease(waits.run_id, waits.step, (1, 1), "w1", waits.index))
    run.append("scheduler", [ev.TaskResumed(waits.run_id, "start/1", waits.index, ok(None))])
    due = scheduling.outstanding(lambda _: run.plan, run.schedule)
    assert {c.index: c.since for c in due} == {0: run.schedule.seq, 1: 0, 2: 0}


def test_the_fold_of_the_whole_log_gives_the_same_schedule_in_one_go() -> None:
    run = Driver(loop(), echo)
    run.control()
    for _ in range(3):
        command = run.queue.pop()
        run.report(command, run.perform(command))
        run.control()
    records = [(i + 1, r) for i, r in enumerate(run.log) if r.writer != "worker"]
    assert evolve(Schedule("x1"), records) == run.schedule


def test_a_start_behind_its_cancel_counts_as_one_before_it() -> None:
    """A scheduler that had not heard of the cancel started the loop, and a worker has an iteration of it: whoever loads
    the log in its order must know it too, or the report is taken for a forged one and the cancel does not wait."""
    run = Driver(loop(), echo)
    scheduled = run.schedule
    run.control()
    begun = (3, run.log[1])
    assert isinstance(run.log[1].events[0], ev.LoopStarted)
    cancel = Record("x1", "router", 9, run.log[0].ts, (ev.StepCancelled("start:1", "start", "cancelled"),))
    claim = Record("x1", "iteration", 1, run.log[0].ts, (ev.StepStarted(), ev.TaskStarted("start", 1)),
                   lease=Lease("start:1", "start", (5, 1), "w1", 0, "default"))
    behind = evolve(scheduled, [(2, cancel), begun, (4, claim)])
    assert unfit(behind, claim, 4) == ""
    assert behind.stopping["start:1"].is_at_work
    assert scheduling.decide(lambda _: run.plan, behind, NOW) == []
    assert behind.stopping == evolve(scheduled, [begun, (2, cancel), (4, claim)]).stopping


def test_the_end_of_a_wait_behind_its_cancel_counts_as_one_before_it() -> None:
    """Whoever loads the log has the cancel first, whoever wrote it the end of the wait: both decide the same."""
    run = Driver(loop(), echo)
    run.control()
    waits = run.queue.pop(0)
    run.append("waiting", [ev.StepStarted(), ev.TaskStarted("start", 1), ev.TaskWaiting("start", 1, "start/1")],
               Lease(waits.run_id, waits.step, (1, 1), "w1", waits.index))
    before, at = run.schedule, run.seq
    cancel = (at + 1, Record("x1", "router", 9, run.log[0].ts, (ev.StepCancelled("start:1", "start", "cancelled"),)))
    resumed = ev.TaskResumed(waits.run_id, "start/1", waits.index, ok(None))
    own = (at + 2, Record("x1", "scheduler", before.n + 1, run.log[0].ts, (resumed,), at))
    loaded, written = evolve(before, [cancel, own]), evolve(before, [own, cancel])
    assert loaded.stopping == written.stopping
    assert not loaded.stopping["start:1"].is_at_work


def test_deciding_again_yields_nothing() -> None:
    run = Driver(loop(), echo)
    run.control()
    assert scheduling.decide(lambda _: run.plan, run.schedule, NOW) == []


def test_an_iteration_carries_what_its_tasks_name_and_not_the_collection() -> None:
    text = """
- step: start
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel}}
  tool: {kind: noop, args: {url: "{{ workload.url }}"}}
"""
    run = Driver(plan_of(text, "{items: [1, 2], url: here, other: 1}"))
    run.control()
    assert [c.scope.workload for c in run.queue] == [{"url": "here"}] * 2


def test_ctx_writes_over_the_limit_fail_the_loop() -> None:
    text = WRITES.replace("MODE", "sequential").replace("PATCH", '{all: {$append: "{{ outcome.result }}"}}')
    run = Driver(plan_of(text, "{items: [1, 2, 3]}"), lambda *_: ok("x" * 200_000)).run()
    assert run.state.error is not None
    assert run.state.error["kind"] == "limit"


@pytest.mark.parametrize(("lifecycle", "by", "said"), [
    ("timeout_s: 5", "timeout_s", "lifecycle.timeout_s (5 s)"), ("deadline_s: 5", "deadline_s", "lifecycle.deadline_s"),
    ("timeout_s: 5, deadline_s: 3", "deadline_s", "lifecycle.deadline_s"),
    ("timeout_s: 3, deadline_s: 5", "timeout_s", "lifecycle.timeout_s (3 s)"),
])
def test_a_loop_over_its_time_says_by_which_key(lifecycle: str, by: str, said: str) -> None:
    spec = f"spec: {{policy: {{lifecycle: {{{lifecycle}}}}}}}"
    plan = plan_of(f"- {{step: start, {spec}, loop: {{in: [1, 2], iterator: n}}, tool: {{kind: noop}}}}")
    run = Driver(plan, echo)
    run.control()
    assert [command.due_by for command in run.queue] == [by]
    (late,) = scheduling.decide(lambda _: plan, run.schedule, NOW + 100)
    assert isinstance(late, ev.StepFailed)
    assert said in late.error["message"]
