"""`admit.join` and `compensate`, as they are read."""

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.model.plan import Compensate
from shared.dsl.read.joins_and_compensation import MAX_JOIN, MIN_JOIN
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("flow")


def compiled(policy: str, undo: str = "{step: undo, tool: {kind: noop}}", extra: str = "") -> Compiled:
    start = f"{{step: start, spec: {{policy: {policy}}}, tool: {{kind: noop}}}}"
    return compile_playbook(f"{HEAD}workflow:\n  - {start}\n  - {undo}\n{extra}", kinds=KINDS)


def told(found: Compiled) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in found.diagnostics if each.severity == "error"]


@pytest.mark.parametrize("join", ["all", "each", "any", MIN_JOIN, MAX_JOIN])
def test_a_join_is_a_word_or_a_number_and_needs_no_rules(join: str | int) -> None:
    plan = compiled(f"{{admit: {{join: {join}}}}}").plan
    assert plan is not None
    assert plan.steps["start"].join == join
    assert plan.steps["start"].admit == ()


@pytest.mark.parametrize(("join", "code"), [
    ("some", "DSL204"), ("true", "DSL204"), ("1.5", "DSL204"), (MIN_JOIN - 1, "DSL204"), (MAX_JOIN + 1, "DSL204"),
    ("'2'", "DSL204"), ("[any]", "DSL204"),
])
def test_any_other_join_is_refused(join: str | int, code: str) -> None:
    assert [code for code, _ in told(compiled(f"{{admit: {{join: {join}}}}}"))] == [code]


@pytest.mark.parametrize(("text", "read"), [
    ("undo", Compensate("undo")),
    ("{step: undo}", Compensate("undo")),
    ('{step: undo, args: {id: "{{ compensates.id }}"}}', Compensate("undo", {"id": "{{ compensates.id }}"})),
])
def test_a_compensation_is_a_step_with_args_of_its_own_or_without(text: str, read: Compensate) -> None:
    found = compiled(f"{{compensate: {text}}}")
    assert found.diagnostics == ()
    assert found.plan is not None
    assert found.plan.steps["start"].compensate == read


@pytest.mark.parametrize(("text", "code", "message"), [
    ("undoo", "DSL403", "there is no step 'undoo'"),
    ("{step: 7}", "DSL403", "there is no step 7"),
    ("[undo]", "DSL203", "compensate must be the name of a step, not a list"),
    ("{args: {}}", "DSL202", "compensate has no step"),
    ("{step: undo, args: 5}", "DSL203", "policy.compensate.args must be a mapping, not a number"),
    ("{step: undo, arg: {}}", "DSL201", "unknown key 'arg' in compensate"),
    ("{kind: noop}", "DSL701", "kind in compensate is not supported"),
    ('{step: undo, args: {k: "{{ keychain.a.b }}"}}', "DSL603",
     "policy.compensate.args may not read the keychain: its value is recorded"),
])
def test_any_other_compensation_is_refused(text: str, code: str, message: str) -> None:
    assert told(compiled(f"{{compensate: {text}}}")) == [(code, message)]


@pytest.mark.parametrize(("policy", "undo", "message"), [
    ("{compensate: start}", "{step: undo, tool: {kind: noop}}", "it is the step to begin with"),
    ("{compensate: undo}", "{step: undo, spec: {policy: {compensate: start}}, tool: {kind: noop}}",
     "it is not undone itself"),
    ("{compensate: end}", "{step: end}", "it has nothing to run"),
])
def test_a_compensation_stands_beside_the_workflow(policy: str, undo: str, message: str) -> None:
    found = told(compiled(policy, undo))
    assert ("DSL410", message) in [(code, text.partition(": ")[2]) for code, text in found]


def test_a_step_that_undoes_another_knows_its_result_and_args() -> None:
    undo = '{step: undo, tool: {kind: noop, args: {a: "{{ compensates.id }}", b: "{{ args.id }}"}}}'
    given = compiled("{compensate: {step: undo, args: {id: 1}}}", undo)
    assert given.diagnostics == ()
    source = f"{HEAD}workload: {{x: 1}}\nworkflow:\n  - {undo.replace('undo', 'start')}\n"
    told_ = [each.code for each in compile_playbook(source, kinds=KINDS).diagnostics]
    assert told_ == ["DSL910", "DSL911"]


def test_a_compensation_named_by_a_path_is_led_to_its_plain_name() -> None:
    found = compiled("{compensate: undo/pay}", "{step: undo/pay, tool: {kind: noop}}")
    assert found.plan is not None, found.diagnostics
    assert found.plan.steps["start"].compensate == Compensate("undo_pay")
    found = compiled("{compensate: {step: undo/pay}}", "{step: undo/pay, tool: {kind: noop}}")
    assert found.plan is not None
    assert found.plan.steps["start"].compensate == Compensate("undo_pay")
