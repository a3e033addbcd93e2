"""The limits of compensation, and what the checker, the alarms and a rerun make of it."""

import random
from typing import Any

import pytest

from shared.answers.rerun import rerun
from shared.engine.routing import cancel_and_pause, compensation
from shared.engine.routing import decide as routing
from shared.events import model as ev
from shared.events.outcome import ok
from tests.unit.engine.routing.test_compensation import BOOKING, PARALLEL, Shop, undone
from tests.unit.engine.routing.test_joins import told_otherwise
from tests.unit.engine.support import NOW, Driver, plan_of


def test_too_many_runs_to_undo_fail_the_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compensation, "MAX_UNDOS", 1)
    run = Driver(plan_of(BOOKING), Shop()).run()
    assert run.steps() == ["start", "pay", "refund", "release"]
    assert (run.state.error or {})["kind"] == "limit"


def test_too_large_results_to_undo_fail_the_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compensation, "MAX_UNDO_BYTES", 40)
    run = Driver(plan_of(BOOKING), Shop()).run()
    assert run.steps() == ["start", "pay", "refund", "release"]
    assert "bytes" in (run.state.error or {})["message"]


def test_too_large_args_are_a_failed_compensation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compensation, "MAX_CALL_BYTES", 10)
    run = Driver(plan_of(BOOKING), Shop("ship")).run()
    assert run.steps() == ["start", "pay", "ship", "release"]
    assert (run.state.error or {})["compensation"][0]["error"]["kind"] == "limit"


def test_only_so_many_faults_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compensation, "MAX_FAULTS_LISTED", 1)
    run = Driver(plan_of(BOOKING), Shop("ship", "refund", "release")).run()
    assert len((run.state.error or {})["compensation"]) == 1
    assert len(run.find(ev.CompensationFailed)) == 2
    monkeypatch.setattr(compensation, "MAX_FAULTS_BYTES", 10)
    run = Driver(plan_of(BOOKING), Shop("ship", "refund", "release")).run()
    assert (run.state.error or {})["compensation"] == []


@pytest.mark.parametrize("fields", [{"compensates": "start:1"}, {"compensates": "ship:1"}, {"tokens": ("t1",)}])
def test_the_checker_tells_a_compensation_that_is_not_due(fields: dict[str, Any]) -> None:
    run = Driver(plan_of(BOOKING), Shop("ship")).run()
    steps = [e.step for e in run.find(ev.StepScheduled)]
    found = told_otherwise(run, ev.StepScheduled, steps.index("refund"), **fields)
    assert found & ({"token"} if "tokens" in fields else {"run"})


def test_the_checker_tells_an_execution_that_ends_with_something_to_undo() -> None:
    run = Driver(plan_of(BOOKING), Shop("ship")).run()
    log = [record for record in run.log if not any(
        isinstance(event, ev.StepScheduled) and event.compensates == "start:1" for event in record.events)]
    run.log = log
    assert "run" in {violation.rule for violation in run.violations()}


def test_a_decision_too_large_for_a_record_fails_the_execution_which_is_undone() -> None:
    workflow = """
    - step: start
      spec: {policy: {compensate: undo}}
      tool: {kind: noop}
      next:
        spec: {mode: inclusive}
        arcs: [{step: a, args: {x: "{{ start.x }}"}}, {step: a, args: {y: "{{ start.x }}"}}]
    - {step: a, tool: {kind: noop}}
    - {step: undo, tool: {kind: noop}}
    """
    large = "x" * 220_000  # twice in tokens, twice in the args of the step
    run = Driver(plan_of(workflow), lambda *_: ok({"x": large})).run()
    assert run.steps() == ["start", "undo"]
    assert (run.state.error or {})["kind"] == "limit"
    assert undone(run) == ["start:1"]
    assert run.violations() == []


@pytest.mark.parametrize("seed", range(40))
def test_whenever_time_is_waited_for_something_follows_from_it(seed: int) -> None:
    """Else the alarm would ring for ever."""
    rng = random.Random(seed)
    run = Driver(plan_of(PARALLEL), Shop("bad"))
    run.control()
    for step in range(40):
        if not run.queue and step > 10:
            break
        if rng.random() < 0.1:
            run.append("control", [ev.CancelRequested(grace_s=rng.choice([0.0, 3.0, 30.0]))])
        elif run.queue:
            command = rng.choice(run.queue)
            if rng.random() < 0.5:
                run.report(command, [ev.StepStarted()])
            else:
                run.queue.remove(command)
                run.report(command, run.perform(command))
        run.control()
        due = cancel_and_pause.due(run.state)
        if due is not None:
            assert routing.decide(run.plan, run.state, due)
            assert due >= NOW
    assert run.violations() == []


def test_nothing_goes_on_from_what_was_undone() -> None:
    run = Driver(plan_of(BOOKING), Shop("ship")).run()
    log = list(enumerate(run.log, 1))
    for refused in (rerun.what_failed("x1", log), rerun.from_step("x1", log, "ship")):
        assert isinstance(refused, str)
        assert "was compensated" in refused
    assert not isinstance(rerun.from_step("x1", log, "start"), str)
