"""`kind: workbook`: the named task inlined, its arguments bound."""

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran

HEAD = head("w")
GREET = "{kind: noop, args: {to: '{{ email }}', from: '{{ workload.me }}'}}"
LISTED = f"workbook: [{{name: greet, tool: {GREET}}}]\n"
NAMED = f"workbook: {{tasks: {{greet: {GREET}}}}}\n"
PLAIN = f"workbook: {{greet: {{tool: {GREET}}}}}\n"


def compiled(workbook: str, workflow: str) -> Compiled:
    source = f"{HEAD}workload: {{me: us}}\n{workbook}workflow:\n{workflow}"
    return compile_playbook(source, kinds=registry.specs())


def run(workbook: str, workflow: str) -> Ran:
    found = compiled(workbook, workflow)
    assert found.plan is not None, [str(each) for each in found.diagnostics]
    return Ran(found.plan, {})


@pytest.mark.parametrize("workbook", [LISTED, NAMED, PLAIN])
def test_a_workbook_task_runs_with_the_args_of_its_reference(workbook: str) -> None:
    ran = run(workbook, "- {step: start, tool: {kind: workbook, name: greet, args: {email: a@b}}}")
    assert ran.args("start_task") == [{"to": "a@b", "from": "us"}]


def test_the_args_of_the_step_are_bound_too() -> None:
    ran = run(LISTED, "- {step: start, args: {email: c@d}, tool: {kind: workbook, name: greet}}")
    assert ran.args("start_task") == [{"to": "c@d", "from": "us"}]


def test_a_reference_in_a_list_of_tasks() -> None:
    workflow = "- {step: start, tool: [{kind: noop}, {name: greet, kind: workbook, args: {email: x}}, {kind: noop}]}"
    ran = run(LISTED, workflow)
    assert ran.args("greet") == [{"to": "x", "from": "us"}]
    assert [name for name, _ in ran.calls] == ["task_0", "greet", "task_2"]


def test_a_program_of_the_workbook_gets_the_args_as_variables() -> None:
    ran = run("workbook: [{name: add, tool: {kind: python, code: 'result = n'}}]\n",
              "- {step: start, tool: {kind: workbook, name: add, args: {n: 3}}}")
    assert ran.calls == [("start_task", {"args": {"n": 3}, "code": "result = n"})]


def test_a_default_is_bound_where_something_else_reads_it() -> None:
    """`c` reads `a`; what only reads its own name, as `b` does, is left where it is."""
    workbook = ("workbook: [{name: t, tool: {kind: noop, args: {a: '{{ workload.me }}', b: '{{ b | default(2) }}', "
                "c: 'of {{ a }}'}}}]\n")
    ran = run(workbook, "- {step: start, tool: {kind: workbook, name: t}}")
    assert ran.args("start_task") == [{"a": "us", "b": 2, "c": "of us"}]
    (bound,) = [task for task in ran.plan.steps["start"].tasks if task.name != "start_task"]
    assert bound.rules[0].then.set_iter.keys() == {"a"}


def test_a_sink_of_the_workbook_task_stores_its_result() -> None:
    """FS §5."""
    sink = "{tool: noop, args: {n: '{{ result.n }}'}}"
    workbook = "workbook: [{name: t, tool: {kind: noop, args: {n: 1}}, sink: " + sink + "}]\n"
    ran = run(workbook, "- {step: start, tool: {kind: workbook, name: t}}")
    assert ran.args("start_sink") == [{"n": 1}]


def test_an_unknown_task_is_told_with_those_there_are() -> None:
    (found,) = compiled(LISTED, "- {step: start, tool: {kind: workbook, name: great}}").diagnostics
    assert (found.code, found.fix) == ("DSL408", "known: greet")


def test_a_workbook_entry_without_a_tool_is_told() -> None:
    found = compiled("workbook: [{name: x}]\n", "- {step: start, next: start}")
    assert "DSL202" in [each.code for each in found.diagnostics]
