"""The pipeline decider: directives, retries, defaults, scopes, and going on from the log."""

from typing import Any

import pytest

from shared.dsl.model.plan import Directive, Step
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.decide import Progress
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import plan_of

COMMAND = Command("x1", "start:1", "start", "d", "default", 1)


def step_of(tool: str) -> Step:
    return plan_of(f"- step: start\n  tool:\n{tool}").steps["start"]


def play(step: Step, outcomes: list[Outcome], command: Command = COMMAND) -> tuple[Progress, list[ev.Event]]:
    """Feeds outcomes to the pipeline until it is over or they are used up."""
    progress, events = pipeline.begin(step, command, {}), []
    for outcome in outcomes:
        assert progress.state == "running", "an outcome too many"
        names = pipeline.names(command, progress, {})
        for event in pipeline.decide(step, progress, outcome, names, "key"):
            events.append(event)
            progress = pipeline.evolve(step, progress, event)
    return progress, events


THREE = """
  - {name: one, kind: noop}
  - {name: two, kind: noop}
  - {name: three, kind: noop}
"""


def test_without_policy_ok_continues_and_the_last_result_is_the_steps() -> None:
    progress, events = play(step_of(THREE), [ok(1), ok(2), ok(3)])
    assert progress.state == "done"
    assert progress.prev.value == 3
    assert [e.task for e in events if isinstance(e, ev.TaskDone)] == ["one", "two", "three"]


def test_without_policy_an_error_fails_the_run_and_names_the_task() -> None:
    progress, _ = play(step_of(THREE), [ok(1), failed("boom", "no")])
    assert progress.state == "failed"
    assert progress.error is not None
    assert (progress.error["kind"], progress.error["task"]) == ("boom", "two")


RULES = """
  - name: one
    kind: noop
    spec:
      policy:
        rules:
          - when: "{{ outcome.status == 'error' and outcome.http.status in [503] }}"
            then: {do: retry, attempts: 3, backoff: exponential, delay: 2.0, set_iter: {tries: "{{ _attempt }}"}}
          - when: "{{ outcome.status == 'error' and outcome.http.status == 404 }}"
            then: {do: jump, to: three}
          - when: "{{ outcome.status == 'error' and outcome.error.kind == 'stop' }}"
            then: {do: break}
          - when: "{{ outcome.status == 'ok' }}"
            then: {do: continue, set_iter: {got: "{{ outcome.result }}"}, set_ctx: {seen: "{{ _task }}"}}
  - {name: two, kind: noop}
  - {name: three, kind: noop}
"""


def http(status: int) -> Outcome:
    return failed("http", str(status), http={"status": status})


def test_retry_repeats_the_task_with_a_growing_delay_until_attempts_are_used_up_then_fails() -> None:
    progress, events = play(step_of(RULES), [http(503), http(503), http(503)])
    delays = [e.delay for e in events if isinstance(e, ev.TaskRetried)]
    assert [e.attempt for e in events] == [1, 2, 3]
    assert delays[0] == pytest.approx(2.0, rel=0.1)
    assert delays[1] == pytest.approx(4.0, rel=0.1)
    assert progress.state == "failed"
    assert progress.iter["tries"] == 2


USED_UP = """
  - name: one
    kind: noop
    spec:
      policy:
        rules:
          - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2}}
          - {when: "{{ %s }}", then: {do: break}}
          - else: {then: {do: break}}
"""


def test_a_used_up_retry_goes_on_to_the_next_rule_whose_own_when_matches() -> None:
    progress, _ = play(step_of(USED_UP % "outcome.error.kind == 'boom'"), [failed("boom", "1"), failed("boom", "2")])
    assert progress.state == "done"


def test_else_does_not_take_what_was_tried_too_often() -> None:
    progress, _ = play(step_of(USED_UP % "false"), [failed("boom", "1"), failed("boom", "2")])
    assert progress.state == "failed"
    assert progress.error is not None
    assert (progress.error["kind"], progress.error["message"], progress.error["attempt"]) == ("boom", "2", 2)
    assert play(step_of(USED_UP % "false"), [failed("boom", "1"), ok(1)])[0].state == "done"


def test_a_retry_that_succeeds_goes_on_with_attempt_one_for_the_next_task() -> None:
    progress, _ = play(step_of(RULES), [http(503), ok("x")])
    assert (progress.task, progress.attempt) == ("two", 1)
    assert progress.iter == {"tries": 1, "got": "x"}
    assert progress.ctx == {"seen": "one"}
    assert progress.patches == ({"seen": "one"},)


def test_jump_skips_to_its_target_and_break_ends_the_run_well() -> None:
    assert play(step_of(RULES), [http(404)])[0].task == "three"
    assert play(step_of(RULES), [failed("stop", "")])[0].state == "done"


def test_an_error_that_no_rule_matches_continues_and_says_so() -> None:
    progress, events = play(step_of(RULES), [failed("other", "")])
    assert progress.task == "two"
    assert isinstance(events[0], ev.PolicyUnmatched)


def test_an_expression_that_fails_in_a_rule_fails_the_run_with_kind_template() -> None:
    tool = """
  - name: one
    kind: noop
    spec: {policy: {rules: [{when: "{{ outcome.result.a > 1 }}", then: {do: continue}}]}}
"""
    progress, _ = play(step_of(tool), [ok({"a": "x"})])
    assert progress.error is not None
    assert progress.error["kind"] == "template"
    assert "outcome.result.a > 1" in progress.error["message"]


def test_tasks_see_the_previous_result_their_label_and_earlier_tasks_by_name() -> None:
    step = step_of(THREE)
    progress, _ = play(step, [ok({"n": 1}), ok([7])])
    names = pipeline.names(COMMAND, progress, {})
    assert names["_task"] == "three"
    assert names["_attempt"] == 1
    assert list(names["_prev"]) == [7]
    assert names["one"].find("n") == 1


def test_going_on_from_the_log_is_at_the_task_after_the_last_finished_one() -> None:
    step = step_of(RULES)
    live, events = play(step, [http(503), ok("x"), ok("y")])
    resumed = pipeline.begin(step, COMMAND, {})
    for event in events:
        resumed = pipeline.evolve(step, resumed, event)
    assert resumed == live
    assert resumed.task == "three"


@pytest.mark.parametrize(
    ("backoff", "attempt", "expected"),
    [("none", 5, 2.0), ("linear", 3, 6.0), ("exponential", 4, 16.0), ("exponential", 60, 300.0)],
)
def test_backoff(backoff: Any, attempt: int, expected: float) -> None:
    delay = pipeline.backoff(Directive("retry", backoff=backoff), attempt, 2.0, "key")
    assert delay == pytest.approx(expected, rel=0.1)
    assert delay <= pipeline.MAX_DELAY_S
    assert delay == pipeline.backoff(Directive("retry", backoff=backoff), attempt, 2.0, "key")


def test_a_cycle_of_jumps_without_a_break_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MAX_TASK_RUNS", 50)
    tool = """
  - name: one
    kind: noop
    spec: {policy: {rules: [{when: "{{ outcome.status == 'ok' }}", then: {do: jump, to: one}}]}}
"""
    progress, _ = play(step_of(tool), [ok()] * 51)
    assert progress.error is not None
    assert progress.error["kind"] == "limit"


def test_an_iteration_sees_its_element_index_and_count() -> None:
    text = """
- step: start
  loop: {in: "{{ workload.items }}", iterator: city}
  tool: {kind: noop}
"""
    step = plan_of(text, "{items: [a]}").steps["start"]
    command = Command("x1", "start:1", "start", "d", "default", 1, index=3, count=9, item={"name": "Oslo"})
    names = pipeline.names(command, pipeline.begin(step, command, {}), {})
    assert names["iter"] == {"city": {"name": "Oslo"}, "index": 3, "count": 9}
    assert names["city"] == {"name": "Oslo"}
    assert names["loop_index"] == 3
