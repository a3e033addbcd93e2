"""Limits of a workflow, each at its edge."""

import time

from shared.dsl.compile import compile_playbook
from shared.dsl.reader import MAX_ERRORS, MAX_NAME, MAX_SUGGESTIONS, MAX_WARNINGS
from shared.dsl.root import MAX_STEPS
from shared.dsl.routes import MAX_ARCS
from shared.dsl.steps import MAX_TASKS
from shared.dsl.texts import MAX_TEMPLATES
from tests.unit.dsl.tool_kinds import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example}\n"


def codes(workflow: str) -> list[str]:
    compiled = compile_playbook(f"{HEAD}workflow:\n{workflow}", kinds=KINDS)
    return [each.code for each in compiled.diagnostics if each.severity == "error"]


def steps(count: int) -> str:
    return " - {step: start, tool: {kind: noop}}\n" + "".join(
        f" - {{step: s{n}, tool: {{kind: noop}}}}\n" for n in range(count - 1))


def test_step_limit() -> None:
    assert codes(steps(MAX_STEPS)) == []
    assert codes(steps(MAX_STEPS + 1)) == ["DSL801"]


def test_task_limit() -> None:
    tasks = "{kind: noop}, " * MAX_TASKS
    assert codes(f" - {{step: start, tool: [{tasks}]}}") == []
    assert codes(f" - {{step: start, tool: [{tasks} {{kind: noop}}]}}") == ["DSL801"]


def test_arc_limit() -> None:
    arcs = "{step: start}, " * MAX_ARCS
    assert codes(f" - {{step: start, next: {{arcs: [{arcs}]}}}}") == []
    assert codes(f" - {{step: start, next: {{arcs: [{arcs} {{step: start}}]}}}}") == ["DSL801"]


def test_name_limit() -> None:
    name = "s" * MAX_NAME
    assert codes(steps(1) + f" - {{step: {name}, tool: {{kind: noop}}}}") == []
    assert codes(steps(1) + f" - {{step: {name}s, tool: {{kind: noop}}}}") == ["DSL205"]


def test_template_limit() -> None:
    def source(count: int) -> str:
        items = "'{{ a }}', " * count
        return f" - {{step: start, tool: {{kind: noop, args: {{a: [{items}]}}}}}}"

    assert codes(source(MAX_TEMPLATES)) == []
    assert codes(source(MAX_TEMPLATES + 1)) == ["DSL801"]


def test_names_are_suggested_for_the_first_mistakes_only() -> None:
    arcs = ", ".join(["{step: strat}"] * (MAX_SUGGESTIONS + 10))
    source = f"{HEAD}workflow:\n - {{step: start, next: {{arcs: [{arcs}]}}}}"
    fixes = [each.fix for each in compile_playbook(source, kinds=KINDS).diagnostics]
    assert fixes.count("did you mean start?") == MAX_SUGGESTIONS
    assert len(fixes) == MAX_SUGGESTIONS + 10


def test_list_of_mistakes_is_cut_off_and_says_so() -> None:
    keys = "".join(f"   k{n}: 1\n" for n in range(MAX_ERRORS + 50))
    found = codes(f" - step: start\n   tool: {{kind: noop}}\n{keys}")
    assert len(found) == MAX_ERRORS + 1
    assert found[-1] == "DSL802"


def test_warnings_have_a_limit_of_their_own_and_leave_the_plan() -> None:
    compiled = compile_playbook(f"{HEAD}workflow:\n{steps(MAX_WARNINGS + 10)}", kinds=KINDS)
    assert compiled.plan is not None
    assert len(compiled.diagnostics) == MAX_WARNINGS + 1
    assert compiled.diagnostics[-1].code == "DSL802"
    assert {each.severity for each in compiled.diagnostics} == {"warning"}


def test_five_hundred_steps_in_a_cycle_compile_in_a_moment() -> None:
    names = ["start", *(f"s{n}" for n in range(499))]
    text = "".join(
        f" - {{step: {name}, tool: {{kind: noop}}, next: {{arcs: [{{step: {names[(n + 1) % 500]}}}]}}}}\n"
        for n, name in enumerate(names))
    began = time.perf_counter()
    compiled = compile_playbook(f"{HEAD}workflow:\n{text}", kinds=KINDS)
    assert time.perf_counter() - began < 5
    assert compiled.plan is not None
    assert all(reached == frozenset(names) for reached in compiled.plan.reach.values())
