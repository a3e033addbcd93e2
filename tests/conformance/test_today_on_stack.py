"""Today's dialect on real services: assertions before a call, parts of a stored result, windows, routers, names."""

import pytest

from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCORER = """
- step: start
  tool: {kind: workbook, name: score, args: {years: "{{ workload.years }}"}}
"""
WORKBOOK = """
workbook:
  - name: score
    tool:
      kind: python
      args: {years: null}
      assert: {expects: [years], returns: [points]}
      code: "result = {'points': years * 2} if years < 9 else {'score': 1}"
"""


@pytest.mark.parametrize(("years", "message"), [
    ("null", "task start_task is called without years"), ("9", "task start_task returned no points"),
])
async def test_an_assertion_that_does_not_hold_is_an_error_of_its_kind(lab: Lab, years: str, message: str) -> None:
    ran = await lab.run(playbook(SCORER, root=WORKBOOK, workload=f"{{years: {years}}}"))
    assert (ran.status, ran.error["kind"], ran.error["message"]) == ("failed", "assert", message)
    outcomes = [done["outcome"] for done in ran.of("task.done", task="start_task")]
    assert [outcome["error"]["kind"] for outcome in outcomes] == ["assert"]


async def test_a_task_whose_assertions_hold_answers_as_ever(lab: Lab) -> None:
    ran = await lab.run(playbook(SCORER, root=WORKBOOK, workload="{years: 4}"))
    assert (ran.status, ran.result()) == ("completed", {"points": 8})


async def test_selected_parts_of_a_stored_result_travel_without_it(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: python, code: "result = {'status': 'ok', 'data': {'id': 7}, 'all': ['x' * 100] * 5000}"}
      result: {store: {kind: auto}, output_select: [status, data.id]}
      next: parts
    - step: parts
      tool: {kind: noop, args: {status: "{{ start.status }}", id: "{{ start.id }}", key: "{{ start._ref.key }}"}}
      next: whole
    - step: whole
      tool: {kind: noop, args: {all: "{{ start.all | length }}", id: "{{ start.data.id }}", ref: "{{ start._store }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", {"all": 5000, "id": 7, "ref": "nats"})
    (parts,) = ran.of("step.scheduled", step="parts")
    seen = parts["scope"]["steps"]["start"]["value"]
    assert (seen["status"], seen["id"], seen["_size_bytes"] > 500_000) == ("ok", 7, True)
    assert ran.of("step.scheduled", step="whole")[0]["scope"]["steps"]["start"]["ref"]["key"] == seen["_ref"]["key"]


async def test_a_templated_window_is_in_the_log(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: "{{ workload.most }}"}}
      tool: {kind: noop, args: {n: "{{ n }}"}}
    """
    ran = await lab.run(playbook(workflow, workload="{most: 3}"))
    assert (ran.status, ran.of("loop.started")[0]["max_in_flight"]) == ("completed", 3)


async def test_steps_named_by_paths_and_routers_that_must_match_run(lab: Lab) -> None:
    workflow = """
    - step: tests/first
      tool: {kind: noop, args: {n: 1}}
      next: {arcs: [{step: tests/second, cond: event.result.n == 1}]}
    - {step: tests/second, tool: {kind: noop}, next: {arcs: [{step: tests/first, when: "{{ false }}"}]}}
    """
    executor = "executor: {spec: {entry_step: tests/first, no_next_is_error: true}}\n"
    ran = await lab.run(playbook(workflow, root=executor))
    assert (ran.status, ran.error["kind"]) == ("failed", "no_match")
    assert [run["run_id"] for run in ran.of("step.scheduled")][:2] == ["tests_first:1", "tests_second:1"]
