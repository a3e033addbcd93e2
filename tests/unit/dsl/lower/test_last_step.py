"""`end` as the step where branches meet when no arc names it."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.lower.lower import lower
from shared.dsl.source.load import load
from shared.events.outcome import failed
from shared.tools import registry
from tests.unit.dsl.lower.support import run
from tests.unit.engine.support import source_of

END = "- {step: end, tool: {kind: noop, args: {done: true}}}"


@pytest.mark.parametrize("workflow", [
    "- {step: start, tool: {kind: noop}}",
    "- {step: start, tool: {kind: noop}, next: a}\n- {step: a, tool: {kind: noop}}",
    "- {step: start, tool: {kind: noop}, next: {arcs: [{step: a}]}}\n- {step: a, tool: {kind: noop}, vars: {x: 1}}",
])
def test_a_step_without_next_leads_to_an_end_that_no_arc_names(workflow: str) -> None:
    ran = run(f"{workflow}\n{END}")
    assert (ran.status, ran.steps[-1], ran.result("end")) == ("completed", "end", {"done": True})


def test_branches_meet_there_once() -> None:
    ran = run(f"- {{step: start, tool: {{kind: noop}}, next: [a, b]}}\n- {{step: a, tool: {{kind: noop}}}}\n"
              f"- {{step: b, tool: {{kind: noop}}}}\n{END}")
    assert (ran.status, sorted(ran.steps)) == ("completed", ["a", "b", "end", "start"])


def test_a_failure_does_not_take_that_way() -> None:
    ran = run(f"- {{step: start, tool: {{kind: noop}}}}\n{END}", {"start_task": lambda _: failed("config", "no")})
    assert (ran.status, ran.steps) == ("failed", ["start"])


@pytest.mark.parametrize("workflow", [
    f"- {{step: start, tool: {{kind: noop}}, next: [a, end]}}\n- {{step: a, tool: {{kind: noop}}}}\n{END}",
    "- {step: start, tool: {kind: noop}, case: [{when: '{{ false }}', then: {next: [{step: end}]}}], next: a}\n"
    f"- {{step: a, tool: {{kind: noop}}}}\n{END}",
    "- {step: start, tool: {kind: noop}, next: a}\n- {step: a, tool: {kind: noop}}\n- {step: end}",
    f"- {{step: start, tool: {{kind: noop}}, spec: {{policy: {{compensate: end}}}}, next: a}}\n"
    f"- {{step: a, tool: {{kind: noop}}}}\n{END}",
], ids=["named by next", "named by a case", "nothing to do", "undoes another"])
def test_any_other_end_is_a_step_like_all(workflow: str) -> None:
    plan = compile_playbook(source_of(workflow), kinds=registry.specs()).plan
    assert plan is not None
    assert not plan.steps["a"].arcs


def test_steps_that_undo_others_lead_nowhere() -> None:
    workflow = ("- {step: start, tool: {kind: noop}, spec: {policy: {compensate: {step: undo}}}}\n"
                f"- {{step: undo, tool: {{kind: noop}}}}\n{END}")
    plan = compile_playbook(source_of(workflow), kinds=registry.specs()).plan
    assert plan is not None
    assert [arc.step for arc in plan.steps["start"].arcs] == ["end"]
    assert not plan.steps["undo"].arcs


def test_an_execution_that_began_before_completes_without_it() -> None:
    source = source_of(f"- {{step: start, tool: {{kind: noop}}}}\n{END}")
    plan = compile_playbook(source, kinds=registry.specs(), edition=2).plan
    assert plan is not None
    assert not plan.steps["start"].arcs


def test_migrate_is_told() -> None:
    document, _ = load(source_of(f"- {{step: start, tool: {{kind: noop}}}}\n{END}"), file="")
    assert document is not None
    (note,) = lower(document, registry.specs()).notes
    assert (note.code, note.message) == ("DSL932", "steps without next lead to end, which no arc names")
