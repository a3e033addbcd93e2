"""What a loop tolerates and when it stops."""

from typing import Any

import pytest

from shared.engine.scheduling import loops
from shared.engine.scheduling import state as schedule
from shared.engine.values import stored_values
from shared.engine.values.chunked import CHUNK, Chunked
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.scheduling.test_nesting import checked
from tests.unit.engine.support import Driver, plan_of

LOOP = """
- step: start
  spec: {policy: {failure: FAILURE}}
  loop:
    in: "{{ workload.items }}"
    iterator: item
    spec: SPEC
  tool: {kind: noop}
  next:
    arcs:
      - {step: after, args: {stopped: "{{ event.payload.stopped }}"}, when: "{{ event.name == 'loop.done' }}"}
- {step: after, tool: {kind: noop}}
"""


def loop(failure: str = "{}", spec: str = "{mode: parallel, max_in_flight: 3}", count: int = 10) -> Any:
    return plan_of(LOOP.replace("FAILURE", failure).replace("SPEC", spec), f"{{items: {list(range(count))}}}")


def failing(*indexes: int) -> Any:
    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        return failed("x", "no") if step == "start" and names["item"] in indexes else ok(names.get("item"))

    return work


@pytest.mark.parametrize("tolerate", ["2", '"20%"', '"29.9%"'])
def test_a_loop_goes_on_while_no_more_iterations_fail_than_it_tolerates(tolerate: str) -> None:
    run = checked(Driver(loop(f"{{tolerate: {tolerate}}}"), failing(1, 4)).run())
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.failed, [each["index"] for each in done.failures]) == (10, 2, [1, 4])
    assert done.result.value["results"][:5] == [0, None, 2, 3, None]


@pytest.mark.parametrize("tolerate", ["2", '"20%"'])
def test_one_failure_more_than_tolerated_fails_the_step(tolerate: str) -> None:
    run = checked(Driver(loop(f"{{tolerate: {tolerate}}}"), failing(1, 4, 5)).run())
    assert run.find(ev.LoopDone) == []
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert (error["index"], error["failed"], error["tolerated"]) == (1, 3, 2)


def test_a_loop_stops_when_its_condition_holds_after_an_iteration_and_those_in_flight_finish() -> None:
    plan = loop(spec='{mode: parallel, max_in_flight: 3, stop_when: "{{ last == 4 }}"}')
    run = checked(Driver(plan, failing()).run())
    (stopped,), (done,) = run.find(ev.LoopStopped), run.find(ev.LoopDone)
    assert (stopped.index, done.stopped, done.count) == (4, True, 7)
    assert done.result.value["results"] == list(range(7))
    assert run.find(ev.StepScheduled)[-1].args == {"stopped": True}


@pytest.mark.parametrize(("condition", "count"), [
    ("count >= 3", 3), ("iter.item == 5", 6), ("results | sum >= 3", 3), ("item == 1 and loop_index == 1", 2),
    ("false", 10), ("workload.items[2] == count", 2), ("count == 10", 10),
])
def test_a_condition_reads_the_results_so_far_their_number_and_the_iteration(condition: str, count: int) -> None:
    run = checked(Driver(loop(spec=f'{{stop_when: "{{{{ {condition} }}}}"}}'), failing()).run())
    (done,) = run.find(ev.LoopDone)
    assert (done.count, done.stopped) == (count, count < 10)


def test_every_iteration_is_asked_about_when_several_reports_come_together() -> None:
    plan = loop(spec='{mode: parallel, max_in_flight: 3, stop_when: "{{ last == 0 }}"}')
    run = Driver(plan, failing())
    run.control()
    for command in list(run.queue):
        run.report(command, run.perform(command))
    run.queue.clear()
    run.control()
    assert [event.index for event in run.find(ev.LoopStopped)] == [0]
    assert run.find(ev.LoopDone)[0].count == 3


def test_a_condition_that_cannot_be_evaluated_fails_the_step() -> None:
    run = checked(Driver(loop(spec='{stop_when: "{{ last + {} }}"}'), failing()).run())
    (error,) = [event.error for event in run.find(ev.StepFailed)]
    assert error["kind"] == "template"
    assert error["message"].startswith("loop.spec.stop_when")


def test_a_state_that_was_handed_out_does_not_change_when_a_draft_of_it_does() -> None:
    first: Chunked[int] = Chunked()
    for index in range(CHUNK + 5):
        first.put(index, index)
    second = first.copy()
    second.put(CHUNK + 5, 1)
    assert (first.size, first.get(CHUNK + 5), second.get(CHUNK + 5)) == (CHUNK + 5, None, 1)
    assert [index for index, _ in second.items()] == list(range(CHUNK + 6))


def test_the_state_keeps_only_the_beginning_of_the_later_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAX_FAILURES_KEPT", 2)

    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step != "start" or names["iter"]["index"] == 4:
            return ok(None)
        return failed("x", "m" * 1000, details={"more": 1})

    run = checked(Driver(loop("{mode: best_effort}", count=5), work).run())
    kept = [failure["error"] for failure in run.find(ev.LoopDone)[0].failures]
    assert ["more" in error for error in kept] == [True, True, False, False]
    assert len(kept[-1]["message"]) == schedule.MAX_FAILURE_TEXT


def test_a_best_effort_of_which_nothing_succeeds_fails_the_step() -> None:
    run = checked(Driver(loop("{mode: best_effort}", count=3), failing(0, 1, 2)).run())
    (end,) = run.find(ev.StepFailed)
    assert (end.error["index"], end.error["failed"], run.find(ev.LoopDone)) == (0, 3, [])
    assert not checked(Driver(loop("{mode: best_effort}", count=0), failing()).run()).find(ev.StepFailed)


@pytest.mark.parametrize("most", [1000, 4000])
def test_a_loop_whose_results_cannot_be_stored_together_fails(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """It would wait for ever otherwise: nobody could write down that it is done."""
    monkeypatch.setattr(loops, "MAX_VALUE_BYTES", most)
    monkeypatch.setattr(stored_values, "MAX_VALUE_BYTES", most)
    run = checked(Driver(loop(), lambda *_: ok("x" * 200)).run())
    if most == 4000:
        assert run.find(ev.LoopDone)
        return
    (end,) = run.find(ev.StepFailed)
    assert (end.error["kind"], end.error["retryable"], run.find(ev.LoopDone)) == ("limit", False, [])
    assert f"bytes, over {most}" in end.error["message"]


def test_the_history_of_an_iteration_begins_with_the_record_that_started_it() -> None:
    run = Driver(loop(), failing())
    run.control()
    assert [command.cause for command in run.queue] == [run.seq] * 3
    command = run.queue.pop(0)
    run.report(command, run.perform(command))
    run.control()
    assert run.queue[-1].cause == run.seq
    assert sorted(run.schedule.loops[command.run_id].sent) == [1, 2, 3]
