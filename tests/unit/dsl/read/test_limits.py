"""`limits` and `priority` of policies."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Limit, Plan
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("a", "team/a")


def compiled(limits: str, executor: str = "{}", tool: str = "tool: {kind: noop}, ") -> tuple[Plan | None, list[str]]:
    step = f"{{step: start, {tool}spec: {{policy: {{limits: {limits}}}}}}}"
    found = compile_playbook(f"{HEAD}executor: {executor}\nworkflow:\n  - {step}\n", kinds=KINDS)
    return found.plan, [f"{each.code} {each.message}" for each in found.diagnostics]


@pytest.mark.parametrize(("given", "limit"), [
    ("{max: 3}", Limit("team/a/start", 3)),
    ("{key: k, max: 3}", Limit("k", 3)),
    ('{rate: "10/s"}', Limit("team/a/start", 0, 10, 1.0)),
    ('{rate: "100/m", key: "x{{ workload.t }}"}', Limit("x{{ workload.t }}", 0, 100, 60.0)),
    ('{rate: "5/30s", max: 1000}', Limit("team/a/start", 1000, 5, 30.0)),
    ('{rate: "5/500ms"}', Limit("team/a/start", 0, 5, 0.5)),
])
def test_a_limit_is_read(given: str, limit: Limit) -> None:
    plan, found = compiled(given)
    assert plan is not None, found
    assert plan.steps["start"].limit == limit


@pytest.mark.parametrize(("given", "code"), [
    ("{key: k}", "DSL202"), ("{max: 0}", "DSL"), ("{max: 1001}", "DSL"), ('{rate: fast}', "DSL203"),
    ('{rate: "0/s"}', "DSL203"), ('{rate: "1001/s"}', "DSL203"), ('{rate: "1/2d"}', "DSL203"),
    ('{rate: "1/50ms"}', "DSL203"), ("{rate: 5}", "DSL203"), ('{key: "{{ keychain.a.b }}", max: 1}', "DSL603"),
    ('{key: "{{ 1 + }}", max: 1}', "DSL601"), ("{places: 1}", "DSL201"),
])
def test_a_limit_that_cannot_be_kept_is_refused(given: str, code: str) -> None:
    plan, found = compiled(given)
    assert plan is None
    assert any(each.startswith(code) for each in found), found


def test_the_executor_limits_executions_and_sets_their_priority() -> None:
    plan, found = compiled("{}", "{spec: {policy: {limits: {max: 2}, priority: 9}}}")
    assert plan is not None, found
    assert (plan.limit, plan.priority) == (Limit("team/a", 2), 9)


def test_a_priority_has_its_bounds() -> None:
    plan, found = compiled("{}", "{spec: {policy: {priority: 10}}}")
    assert plan is None
    assert "0 to 9" in found[0] or "9" in found[0]


def test_a_step_without_a_tool_has_nothing_to_limit() -> None:
    steps = "[{step: start, spec: {policy: {limits: {max: 1}}}, next: {arcs: [{step: end}]}}, {step: end}]"
    found = compile_playbook(f"{HEAD}workflow: {steps}\n", kinds=KINDS)
    assert found.plan is not None
    assert [each.code for each in found.diagnostics] == ["DSL903"]
