"""Why a step failed stays what it is, whatever goes wrong in the rules and arcs that are asked about it."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.unit.engine.support import Driver, plan_of, source_of

BOOM = failed("python", "ValueError: orig", details={"exit": 3})


def ended(workflow: str, outcome: Outcome = BOOM, edition: int | None = None) -> Driver:
    if edition is None:
        plan = plan_of(workflow)
    else:
        found = compile_playbook(source_of(workflow, "{}"), kinds=registry.specs(), edition=edition).plan
        assert found is not None
        plan = found
    return Driver(plan, lambda _step, task, _names: outcome if task == "start_task" else ok(1)).run()


ARCS = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: b, ARC}]}
- {step: b, tool: {kind: noop}}
"""
BROKEN = pytest.mark.parametrize("arc", [
    "when: \"{{ event.name == 'step.failed' and event.error.message + 5 > 3 }}\"",
    "when: \"{{ event.name == 'step.failed' }}\", args: {x: \"{{ start.rows[0] }}\"}",
])


@BROKEN
def test_an_arc_that_cannot_be_asked_does_not_hide_the_failure(arc: str) -> None:
    error = ended(ARCS.replace("ARC", arc)).state.error
    assert error is not None
    assert (error["kind"], error["message"], error["step"]) == ("python", "ValueError: orig", "start")
    assert error["next_error"]["kind"] == "template"
    assert "next of step start" in error["next_error"]["message"]


@BROKEN
def test_an_arc_that_cannot_be_asked_about_a_success_is_the_failure(arc: str) -> None:
    error = ended(ARCS.replace("ARC", arc.replace("step.failed", "step.done").replace("event.error.message", "'a'")),
                  ok(1)).state.error
    assert error is not None
    assert (error["kind"], "next_error" in error) == ("template", False)


@BROKEN
def test_in_the_third_edition_it_did(arc: str) -> None:
    error = ended(ARCS.replace("ARC", arc), edition=3).state.error
    assert error is not None
    assert (error["kind"], "next_error" in error) == ("template", False)


RULES = """
- step: start
  tool:
    kind: noop
    spec: {policy: {rules: [{when: "{{ outcome.error and outcome.error.message + 5 }}", then: {do: break}}]}}
"""
RETRY = '- {step: start, tool: {kind: noop}, retry: {max_attempts: 2, retry_when: "{{ error.message + 5 }}"}}'


@pytest.mark.parametrize("workflow", [RULES, RETRY])
def test_a_rule_that_cannot_be_asked_does_not_hide_the_failure(workflow: str) -> None:
    error = ended(workflow).state.error
    assert error is not None
    assert (error["kind"], error["message"], error["task"]) == ("python", "ValueError: orig", "start_task")
    assert error["rule_error"]["kind"] == "template"
    former = ended(workflow, edition=3).state.error
    assert former is not None
    assert (former["kind"], "rule_error" in former) == ("template", False)


@pytest.mark.parametrize(("test", "end", "taken"), [
    ("event.name.startswith('step')", BOOM, True), ("event.name.split('.')[1] == 'failed'", BOOM, True),
    ("event.name.endswith('.done')", BOOM, False), ("event.name.endswith('.done')", ok(1), True),
    ("event.name.upper() == 'STEP.DONE'", ok(1), True),
])
def test_the_name_of_an_event_has_the_methods_of_a_text(test: str, end: Outcome, taken: bool) -> None:
    workflow = ARCS.replace("ARC", f'when: "{{{{ {test} }}}}"')
    assert ("b" in ended(workflow, end).steps()) is taken
    assert ended(workflow, end, edition=3).state.status == "failed"


def test_admission_reads_the_name_of_an_event_as_a_text() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: b, when: "{{ event.error }}"}]}
    - step: b
      spec: {policy: {admit: {rules: [{when: "{{ event.name.endswith('failed') }}", then: {allow: true}}]}}}
      tool: {kind: noop}
    """
    assert ended(workflow).steps() == ["start", "b"]
