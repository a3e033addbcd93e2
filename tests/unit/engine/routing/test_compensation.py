"""What is done is undone, last first, before an execution ends as failed or cancelled."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.answers.history.summary import Summary
from shared.engine.routing import compensation
from shared.engine.routing import decide as routing
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.stamp import seconds
from tests.unit.engine.support import NOW, Driver, plan_of

BOOKING = """
- step: start
  spec: {policy: {compensate: release}}
  tool: {kind: noop}
  next: {arcs: [{step: pay, args: {amount: 5}}]}
- step: pay
  spec: {policy: {compensate: {step: refund, args: {back: "{{ args.amount }}", id: "{{ compensates.id }}"}}}}
  tool: {kind: noop}
  next: {arcs: [{step: ship}]}
- {step: ship, tool: {kind: noop}}
- {step: release, tool: {kind: noop, args: {id: "{{ compensates.id }}", run: "{{ compensates._run_id }}"}}}
- {step: refund, tool: {kind: noop, args: {back: "{{ args.back }}"}}}
"""


class Shop:
    """Every tool: gives an id, fails where told to, and keeps what it was called with."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.calls: list[tuple[str, Any]] = []

    def __call__(self, step: str, _task: str, names: dict[str, Any]) -> Outcome:
        seen = names["compensates"].find("id") if "compensates" in names else None
        self.calls.append((step, seen))
        return failed("broken", step) if step in self.broken else ok({"id": f"{step}!"})


def test_a_failure_undoes_what_is_done_last_first_and_keeps_its_error() -> None:
    shop = Shop("ship")
    run = Driver(plan_of(BOOKING), shop).run()
    assert run.steps() == ["start", "pay", "ship", "refund", "release"]
    scheduled = {event.step: event for event in run.find(ev.StepScheduled)}
    assert scheduled["refund"].args == {"back": 5, "id": "pay!"}
    assert (scheduled["refund"].compensates, scheduled["refund"].tokens) == ("pay:1", ())
    assert scheduled["release"].compensates == "start:1"
    assert shop.calls[-1] == ("release", "start!")
    assert run.state.status == "failed"
    error = run.state.error or {}
    assert (error["kind"], error["message"], error["step"]) == ("broken", "ship", "ship")
    assert "compensation" not in error
    assert run.violations() == []


def test_compensations_run_one_after_the_other() -> None:
    run = Driver(plan_of(BOOKING), Shop("ship"))
    run.control()
    while run.state.status == "running":
        command = run.queue.pop(0)
        run.report(command, run.perform(command))
        run.control()
    assert [command.step for command in run.queue] == ["refund"]
    assert routing.decide(run.plan, run.state, NOW + run.seq) == []


def test_a_failed_compensation_is_told_and_does_not_stop_the_others() -> None:
    run = Driver(plan_of(BOOKING), Shop("ship", "refund")).run()
    assert run.steps()[-2:] == ["refund", "release"]
    error = run.state.error or {}
    assert (error["kind"], error["message"]) == ("broken", "ship")
    [fault] = error["compensation"]
    assert (fault["compensates"], fault["step"], fault["run_id"]) == ("pay:1", "refund", "refund:1")
    assert fault["error"]["message"] == "refund"
    assert run.violations() == []


def test_args_that_cannot_be_rendered_are_a_failed_compensation() -> None:
    book = BOOKING.replace("compensates.id }}\"}}}}\n  tool", "compensates.nothing }}\"}}}}\n  tool", 1)
    assert book != BOOKING
    run = Driver(plan_of(book), Shop("ship")).run()
    assert run.steps() == ["start", "pay", "ship", "release"]
    [fault] = (run.state.error or {})["compensation"]
    assert (fault["compensates"], fault["run_id"], fault["error"]["kind"]) == ("pay:1", "", "template")
    assert run.violations() == []


def test_nothing_is_undone_when_the_execution_completes() -> None:
    run = Driver(plan_of(BOOKING), Shop()).run()
    assert run.steps() == ["start", "pay", "ship"]
    assert run.state.status == "completed"


def test_what_failed_is_not_undone_and_without_a_completed_run_there_is_no_phase() -> None:
    run = Driver(plan_of(BOOKING), Shop("start")).run()
    assert run.steps() == ["start"]
    assert not run.find(ev.PlaybookCompensating)
    assert run.state.status == "failed"


def cancel(run: Driver) -> None:
    run.append("control", [ev.CancelRequested("enough", grace_s=5.0)])
    run.control()


def test_a_cancel_undoes_and_a_second_one_does_not_stop_it() -> None:
    run = Driver(plan_of(BOOKING), Shop())
    run.control()
    for _ in range(2):
        command = run.queue.pop(0)
        run.report(command, run.perform(command))
        run.control()
    cancel(run)  # nobody has taken `ship` yet
    assert run.state.status == "compensating"
    run.queue.pop(0)
    cancel(run)
    run.run()
    assert run.steps() == ["start", "pay", "ship", "refund", "release"]
    assert run.state.status == "cancelled"
    assert run.state.error == {"kind": "cancelled", "message": "enough"}
    assert run.violations() == []


def test_a_pause_neither_begins_nor_holds_up_compensation() -> None:
    run = Driver(plan_of(BOOKING), Shop())
    run.control()
    command = run.queue.pop(0)
    run.append("control", [ev.PauseRequested(at=1)])
    run.control()
    run.report(command, run.perform(command))
    run.control()
    assert run.state.paused
    cancel(run)
    run.append("control", [ev.PauseRequested(at=2)])
    run.run()
    assert run.state.status == "cancelled"
    assert run.steps() == ["start", "release"]  # it had ended, and nothing had followed from it
    assert run.violations() == []


PARALLEL = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: other}, {step: bad}]}
- {step: slow, spec: {policy: {compensate: undo}}, tool: {kind: noop}}
- {step: other, spec: {policy: {compensate: undo}}, tool: {kind: noop}}
- {step: bad, tool: {kind: noop}}
- {step: undo, tool: {kind: noop}}
"""


def begun(*broken: str) -> Driver:
    """All three under way."""
    run = Driver(plan_of(PARALLEL), Shop(*broken))
    run.control()
    for command in run.queue:
        run.report(command, [ev.StepStarted()])
    return run


def finish(run: Driver, step: str) -> None:
    command = next(each for each in run.queue if each.step == step)
    run.queue.remove(command)
    run.report(command, run.perform(command))


def undone(run: Driver) -> list[str]:
    return [event.compensates for event in run.find(ev.StepScheduled) if event.compensates]


def test_what_still_runs_is_waited_for_and_undone_if_it_completes_all_the_same() -> None:
    run = begun("bad")
    finish(run, "bad")
    run.control()
    assert {event.run_id for event in run.find(ev.StepCancelled)} == {"slow:1", "other:1"}
    assert undone(run) == []
    finish(run, "slow")
    run.control()
    assert undone(run) == []
    command = next(each for each in run.queue if each.step == "other")
    run.queue.remove(command)
    run.report(command, [ev.StepFailed({"kind": "cancelled", "message": "stopped"})])
    run.run()
    assert undone(run) == ["slow:1"]
    assert run.state.status == "failed"
    assert run.violations() == []


def test_the_grace_is_limited() -> None:
    run = begun("bad")
    finish(run, "other")
    finish(run, "bad")
    run.control()
    assert run.state.status == "compensating"
    due = compensation.due(run.state)
    assert due is not None
    assert due == pytest.approx(seconds(run.state.until))
    assert routing.decide(run.plan, run.state, due - 0.1) == []
    later = routing.decide(run.plan, run.state, due)
    assert [event.compensates for event in later if isinstance(event, ev.StepScheduled)] == ["other:1"]


def test_what_had_ended_when_the_execution_failed_is_undone_too() -> None:
    run = begun("bad")
    finish(run, "bad")
    finish(run, "slow")
    finish(run, "other")
    run.run()
    assert undone(run) == ["other:1", "slow:1"]
    assert run.violations() == []


def test_every_run_of_a_cycle_is_undone() -> None:
    workflow = """
    - step: start
      spec: {policy: {compensate: undo}}
      tool:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}
      next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}, {step: bad}]}
    - {step: bad, tool: {kind: noop}}
    - {step: undo, tool: {kind: noop}}
    """
    run = Driver(plan_of(workflow), Shop("bad")).run()
    assert undone(run) == ["start:3", "start:2", "start:1"]
    assert run.violations() == []


def test_a_compensation_with_a_loop_runs_its_iterations() -> None:
    workflow = """
    - {step: start, spec: {policy: {compensate: undo}}, tool: {kind: noop}, next: {arcs: [{step: bad}]}}
    - {step: bad, tool: {kind: noop}}
    - {step: undo, loop: {in: "{{ [1, 2] }}", iterator: i}, tool: {kind: noop}}
    """
    shop = Shop("bad")
    run = Driver(plan_of(workflow), shop).run()
    assert [step for step, _ in shop.calls] == ["start", "bad", "undo", "undo"]
    assert run.violations() == []


def test_the_execution_s_deadline_does_not_stop_compensation() -> None:
    run = Driver(replace(plan_of(BOOKING), timeout_s=60.0), Shop("ship")).run()
    deadlines = {event.step: event.deadline for event in run.find(ev.StepScheduled)}
    assert deadlines["ship"]
    assert not deadlines["refund"]


def test_people_see_that_it_is_being_compensated() -> None:
    run = Driver(plan_of(BOOKING), Shop("ship")).run()
    summary, seen = Summary("x1"), []
    for record in run.log:
        summary.apply(record)
        seen.append(summary.status)
    assert list(dict.fromkeys(seen)) == ["running", "compensating", "failed"]


def test_a_run_that_begins_while_others_are_undone_is_waited_for_and_undone() -> None:
    run = Driver(plan_of(PARALLEL), Shop("bad"))
    run.control()
    finish(run, "other")
    finish(run, "bad")
    run.control()
    assert undone(run) == ["other:1"]
    slow = next(each for each in run.queue if each.step == "slow")
    run.report(slow, [ev.StepStarted()])
    assert compensation.due(run.state) is None  # time alone would change nothing
    finish(run, "undo")
    run.control()
    assert run.state.status == "compensating"
    assert compensation.due(run.state) == seconds(run.state.until)
    finish(run, "slow")
    run.run()
    assert undone(run) == ["other:1", "slow:1"]
    assert run.violations() == []


def test_what_was_done_in_the_first_decision_is_undone_in_it_too() -> None:
    workflow = """
    - step: start
      spec: {policy: {compensate: undo}}
      next: {arcs: [{step: middle}]}
    - {step: middle, next: {arcs: [{step: last, args: {x: "{{ nothing.at.all }}"}}]}}
    - {step: last, tool: {kind: noop}}
    - {step: undo, tool: {kind: noop}}
    """
    run = Driver(plan_of(workflow))
    assert run.state.status == "compensating"
    assert run.run().steps() == ["start", "middle", "undo"]
    assert (run.state.status, (run.state.error or {})["kind"]) == ("failed", "template")
    assert run.violations() == []
