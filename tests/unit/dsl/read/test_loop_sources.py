"""Where a loop's iterations run, and where its elements come from."""

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.tools import registry
from tests.support.playbooks import head

HEAD = head("t") + "workload: {state: new}\nworkflow:\n"
CURSOR = 'cursor: {kind: postgres, auth: db, claim: "SELECT {{ claim.size }}, {{ claim.id }}, {{ workload.state }}"}'


def compiled(loop: str, tool: str = "{kind: noop}") -> Compiled:
    return compile_playbook(f"{HEAD}  - step: start\n    loop: {loop}\n    tool: {tool}\n", kinds=registry.specs())


def test_a_local_loop_is_one_that_says_so() -> None:
    for word, local in (("local", True), ("distributed", False)):
        found = compiled(f"{{in: [1], iterator: n, spec: {{policy: {{exec: {word}}}}}}}")
        assert found.plan is not None
        assert found.diagnostics == ()
        loop = found.plan.steps["start"].loop
        assert loop is not None
        assert loop.local is local


@pytest.mark.parametrize("task", ["kind: wait, for: 1s", "kind: signal, signal: go", "kind: playbook, path: a/b"])
def test_a_task_that_waits_without_a_worker_is_refused_in_a_local_loop(task: str) -> None:
    found = compiled("{in: [1], iterator: n, spec: {policy: {exec: local}}}", f"[{{kind: noop}}, {{{task}}}]")
    assert [(each.code, each.fix) for each in found.diagnostics] == [
        ("DSL701", "write exec: distributed, or move the task to a step of its own")]
    assert compiled("{in: [1], iterator: n}", f"[{{kind: noop}}, {{{task}}}]").plan is not None


def test_a_step_with_places_to_wait_for_is_refused_a_local_loop() -> None:
    loop = "{in: [1], iterator: n, spec: {policy: {exec: local}}}\n    spec: {policy: {limits: {max: 2}}}"
    assert [each.code for each in compiled(loop).diagnostics] == ["DSL701"]
    assert compiled(loop.replace("local", "distributed")).diagnostics == ()


def test_a_cursor_is_a_call_with_the_knobs_around_it_and_names_of_its_own() -> None:
    found = compiled(f"{{{CURSOR}, iterator: row, spec: {{timeout: 7}}}}")
    assert found.diagnostics == ()
    assert found.plan is not None
    step = found.plan.steps["start"]
    assert step.loop is not None
    assert step.loop.cursor is not None
    cursor = step.loop.cursor
    assert (cursor.frame, cursor.claim.kind, cursor.claim.spec["timeout"]) == (100, "postgres", 7)
    assert "state" in step.needs.workload
    assert "state" not in step.task_needs.workload


def test_a_name_that_a_claim_does_not_have_is_told() -> None:
    found = compiled(f"{{{CURSOR.replace('workload.state', 'workload.stat')}, iterator: row}}")
    assert [each.code for each in found.diagnostics] == ["DSL911"]
