"""Joins and compensation on a real stack: what the issue's example says, and a saga that is undone."""

from typing import Any

import pytest

from shared.events import subjects
from tests.conformance.stand.lab import Lab, Ran, playbook
from tests.conformance.test_control import started

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOIN = """
- step: start
  tool: {kind: noop}
  next:
    spec: {mode: inclusive}
    arcs: [{step: fails}, {step: skipped}, {step: loops}]
- step: fails
  tool: {kind: python, code: "raise ValueError('broken')"}
  next:
    arcs:
      - {step: joined, when: "{{ event.name == 'step.failed' }}", args: {failed: "{{ event.error.kind }}"}}
      - {step: joined, args: {failed: never}}
- step: skipped
  spec: {policy: {admit: {rules: [{when: "{{ workload.open }}", then: {allow: true}}]}}}
  tool: {kind: noop}
  next: {arcs: [{step: joined, args: {skipped: never}}]}
- step: loops
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {rounds: {$add: 1}}}}}]}}
  next:
    arcs:
      - {step: loops, when: "{{ ctx.rounds < 3 }}"}
      - {step: joined, args: {rounds: "{{ ctx.rounds }}"}}
- step: joined
  JOINtool: {kind: python, args: {seen: "{{ args }}"}, code: "result = seen"}
"""


def _runs(ran: Ran, step: str) -> list[dict[str, Any]]:
    return ran.of("step.scheduled", step=step)


async def test_a_join_after_a_failed_a_skipped_and_a_looping_branch_runs_once_with_their_args(lab: Lab) -> None:
    ran = await lab.run(playbook(JOIN.replace("JOIN", ""), workload="{open: false}"))
    assert ran.status == "completed", ran.error
    assert [run["args"] for run in _runs(ran, "joined")] == [{"failed": "python", "rounds": 3}]
    assert ran.result() == {"failed": "python", "rounds": 3}
    assert len(_runs(ran, "loops")) == 3
    assert [token["step"] for token in ran.of("token.rejected")] == ["skipped"]
    assert len(ran.of("token.joined")) == 1


@pytest.mark.parametrize(("join", "runs", "absorbed", "rejected"), [
    ("each", 2, 0, 0), ("any", 1, 1, 0), ("2", 1, 0, 0), ("3", 0, 0, 2),
])
async def test_the_same_net_with_another_join(lab: Lab, join: str, runs: int, absorbed: int, rejected: int) -> None:
    spec = f"spec: {{policy: {{admit: {{join: {join}}}}}}}\n  "
    ran = await lab.run(playbook(JOIN.replace("JOIN", spec), workload="{open: false}"))
    assert ran.status == "completed", ran.error
    assert len(_runs(ran, "joined")) == runs
    assert len(ran.of("token.absorbed", step="joined")) == absorbed
    assert len(ran.of("token.rejected", step="joined")) == rejected


SAGA = """
- step: start
  spec: {policy: {compensate: {step: release, args: {seat: "{{ compensates.seat }}"}}}}
  tool: {kind: python, code: "result = {'seat': '12A'}"}
  next: {arcs: [{step: pay, args: {amount: 40}}]}
- step: pay
  spec: {policy: {compensate: refund}}
  tool: {kind: python, code: "result = {'payment': 'p1'}"}
  next: {arcs: [{step: ship}]}
- step: ship
  tool: SHIP
- step: refund
  tool:
    kind: python
    args: {payment: "{{ compensates.payment }}", amount: "{{ args.amount }}", run: "{{ compensates._run_id }}"}
    code: REFUND
- step: release
  tool: {kind: python, args: {seat: "{{ args.seat }}"}, code: "result = seat"}
"""


def _saga(ship: str, refund: str = '"result = [payment, amount, run]"') -> str:
    return playbook(SAGA.replace("SHIP", ship).replace("REFUND", refund))


async def test_a_failed_saga_is_undone_last_first_and_keeps_its_error(lab: Lab) -> None:
    ran = await lab.run(_saga('{kind: python, code: "raise ValueError(1)"}'))
    assert ran.status == "failed"
    assert (ran.error["kind"], ran.error["step"], ran.error.get("compensation")) == ("python", "ship", None)
    undone = [(run["step"], run["compensates"]) for run in ran.of("step.scheduled") if run.get("compensates")]
    assert undone == [("refund", "pay:1"), ("release", "start:1")]
    results = [event["payload"]["result"]["value"] for event in ran.events if event["event_type"] == "step.done"]
    assert results[-2:] == [["p1", 40, "pay:1"], "12A"]


async def test_a_compensation_that_fails_is_in_the_error_and_the_next_one_runs(lab: Lab) -> None:
    ran = await lab.run(_saga('{kind: python, code: "raise ValueError(1)"}', '"raise ValueError(payment)"'))
    assert ran.status == "failed"
    [fault] = ran.error["compensation"]
    assert (fault["compensates"], fault["step"]) == ("pay:1", "refund")
    assert ran.summary.steps["release"].status == "done"


async def test_a_cancelled_saga_is_undone(lab: Lab) -> None:
    run = await started(lab, _saga("{kind: wait, for: 1h}"))
    await run.seen("task.waiting")
    await run.ask(subjects.CANCEL, reason="enough")
    summary = await run.over()
    assert (summary.status, summary.error) == ("cancelled", {"kind": "cancelled", "message": "enough"})
    assert [summary.steps[name].status for name in ("refund", "release")] == ["done", "done"]


async def test_neither_a_cancel_nor_a_pause_stops_compensation(lab: Lab) -> None:
    saga = _saga('{kind: python, code: "raise ValueError(1)"}').replace(
        "    tool: {kind: python, args: {seat",
        "    tool:\n      - {kind: wait, for: 1s}\n      - {kind: python, args: {seat")
    assert "wait" in saga
    run = await started(lab, saga)
    await run.seen("task.waiting")
    await run.ask(subjects.CANCEL, reason="too late")
    await run.ask(subjects.PAUSE)
    summary = await run.over()
    assert summary.status == "failed"
    assert summary.steps["release"].status == "done"
