"""Shapes of today: `output` of a step, `input` anywhere, loops with `mode: cursor`, flat containers, forms."""

from textwrap import dedent, indent
from typing import Any

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.events.outcome import failed
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran, run, step_of, task_of


def compiled(workflow: str, root: str = "") -> Compiled:
    source = head("today") + root + "workflow:\n" + indent(dedent(workflow), "  ")
    return compile_playbook(source, kinds=registry.specs())


def told(workflow: str) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in compiled(workflow).diagnostics]


# -- output of a step -----------------------------------------------------------------------------


def test_output_of_a_step_is_its_result() -> None:
    found = step_of("- {step: start, tool: {kind: noop}, output: {output_select: [a], inline_max_bytes: 900}}")
    assert (found.tasks[0].select, found.max_payload_bytes) == (("a",), 900)


@pytest.mark.parametrize(("output", "message"), [
    ('"{{ output.v }}"', "output of a step must be a mapping"),
    ('{total: "{{ output.v }}"}', "unknown key 'total' in output"),
])
def test_an_output_that_computes_is_told_in_the_authors_word(output: str, message: str) -> None:
    (found,) = compiled(f"- {{step: start, tool: {{kind: noop}}, output: {output}}}").diagnostics
    assert found.message == message
    assert 'write result: "{{ … }}" in a rule of that task' in found.fix


def test_both_words_at_once_are_told() -> None:
    keys = "result: {output_select: [a]}, output: {output_select: [b]}"
    assert told(f"- {{step: start, tool: {{kind: noop}}, {keys}}}") == [
        ("DSL401", "output_select is given on the step and on its task")]


# -- input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["input: {m: 2}", "spec: {input: {m: 2}}", "args: {m: 2}"])
def test_input_of_a_task_is_its_args(tool: str) -> None:
    assert task_of(f"- {{step: start, tool: {{kind: python, {tool}, code: result = m}}}}", "start_task").config == {
        "args": {"m": 2}, "code": "result = m"}


@pytest.mark.parametrize(("body", "args"), [
    ("input: {m: null, k: 5}", {"m": 2, "k": 5}), ("spec: {input: {k: 5}}", {"m": 2, "k": 5}),
])
@pytest.mark.parametrize("reference", ["input: {m: 2}", "spec: {input: {m: 2}}"])
def test_input_of_a_workbook_task_and_of_its_use_are_args(body: str, args: dict[str, Any], reference: str) -> None:
    plan = compiled(f"- {{step: start, tool: {{kind: workbook, name: w, {reference}}}}}",
                    f"workbook: [{{name: w, tool: {{kind: python, {body}, code: result = m}}}}]\n").plan
    assert plan is not None
    assert Ran(plan, {}).args("start_task") == [args]


def test_input_of_a_step_and_of_an_arc_are_args() -> None:
    ran = run("""
    - {step: start, input: {n: 3}, tool: {kind: noop, args: {m: "{{ n }}"}}, next: {arcs: [{step: b, input: {z: 1}}]}}
    - {step: b, tool: {kind: noop, args: {z: "{{ z }}"}}}
    """)
    assert (ran.args("start_task"), ran.args("b_task")) == ([{"m": 3}], [{"z": 1}])


# -- loops ----------------------------------------------------------------------------------------

CLAIM = '{kind: postgres, auth: q, claim: "UPDATE jobs SET c = 1 RETURNING id"}'


@pytest.mark.parametrize("loop", [
    f"{{cursor: {CLAIM}, iterator: row, spec: {{mode: cursor, frame: 50, max_in_flight: 4}}}}",
    f"{{iterator: row, spec: {{mode: cursor, frame: {{size: 50}}, max_in_flight: 4, cursor: {CLAIM}}}}}",
    f"{{cursor: {CLAIM}, iterator: row, mode: cursor, spec: {{frame: 50, max_in_flight: 4}}}}",
])
def test_a_loop_in_mode_cursor_is_one_with_a_cursor(loop: str) -> None:
    found = step_of(f"- {{step: start, loop: {loop}, tool: {{kind: noop}}}}").loop
    assert found is not None
    assert found.cursor is not None
    assert (found.cursor.frame, found.mode, found.max_in_flight) == (50, "parallel", 4)


def test_one_row_at_a_time_without_a_window() -> None:
    found = step_of(f"- {{step: start, loop: {{cursor: {CLAIM}, iterator: row, spec: {{mode: cursor}}}}, "
                    "tool: {kind: noop}}").loop
    assert found is not None
    assert (found.mode, found.max_in_flight) == ("sequential", 1)


def test_mode_cursor_without_a_cursor_is_told() -> None:
    (found,) = compiled("- {step: start, loop: {iterator: row, spec: {mode: cursor}}, tool: {kind: noop}}").diagnostics
    assert (found.code, "write cursor: {kind: postgres" in found.fix) == ("DSL404", True)


# -- tools ----------------------------------------------------------------------------------------


def test_a_flat_container_is_one_with_a_runtime() -> None:
    config = task_of("""
    - step: start
      tool: {kind: container, image: "a:1", command: [x], args: [y], namespace: n, backoff_limit: 2,
             service_account: s, env: {A: 1}}
    """, "start_task").config
    assert config == {"env": {"A": 1}, "runtime": {
        "image": "a:1", "command": ["x"], "args": ["y"], "namespace": "n", "backoffLimit": 2,
        "serviceAccountName": "s"}}


def test_args_of_a_container_that_are_a_mapping_are_the_tasks() -> None:
    config = task_of("- {step: start, tool: {kind: container, image: 'a:1', args: {y: 1}}}", "start_task").config
    assert config == {"args": {"y": 1}, "runtime": {"image": "a:1"}}


def test_what_a_container_does_not_have_is_told() -> None:
    assert told("- {step: start, tool: {kind: container, image: 'a:1', gpus: 2}}") == [
        ("DSL201", "unknown key 'gpus' in a task of kind container")]


def test_a_form_is_a_body_of_its_type() -> None:
    config = task_of("- {step: start, tool: {kind: http, method: POST, url: 'http://x/', form: {a: 1}}}",
                     "start_task").config
    assert (config["body"], config["headers"]) == (
        {"a": 1}, {"Content-Type": "application/x-www-form-urlencoded"})


def test_a_form_and_a_body_are_told() -> None:
    assert told("- {step: start, tool: {kind: http, url: 'http://x/', form: {a: 1}, json: {}}}") == [
        ("DSL204", "the task has form and json")]


@pytest.mark.parametrize(("status", "calls"), [(502, 2), (500, 1)])
def test_a_call_is_made_again_on_the_statuses_it_names(status: int, calls: int) -> None:
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x/", retry_on_status: [502, 503], retry: {max_attempts: 2, delay: 0}}
    """, {"start_task": lambda _: failed("http", "no", http={"status": status})})
    assert (ran.status, len(ran.calls)) == ("failed", calls)


def test_retry_on_status_is_a_list_of_numbers() -> None:
    assert told("- {step: start, tool: {kind: http, url: 'http://x/', retry_on_status: often}}") == [
        ("DSL203", "retry_on_status is a list of numbers")]


def test_an_arc_sets_no_iter() -> None:
    (found,) = compiled("""
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: e, set: {iter.k: 1}}]}}
    - {step: e, tool: {kind: noop}}
    """).diagnostics
    assert (found.code, found.fix) == (
        "DSL204", "write args: {k: …}, which the next step reads as {{ k }}, or set: {ctx.k: …}")
