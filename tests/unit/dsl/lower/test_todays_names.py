"""Names that playbooks of today read: `output`, the step's own, results of single tasks, the step before, the clock."""

from typing import Any

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.model.edition import EDITION
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Answer, Ran, answer, page, run
from tests.unit.engine.support import source_of

PAGE = page({"items": [1, 2]})
ROWS = ok({"rows": [{"id": 5}], "row_count": 1, "columns": ["id"]}, shape="sql")
HTTP = "kind: http, url: 'http://localhost/'"
QUERY = "kind: postgres, auth: pg, command: SELECT 1"


def compiled(workflow: str, edition: int = EDITION) -> Compiled:
    return compile_playbook(source_of(workflow), kinds=registry.specs(), edition=edition)


def giving(outcome: Outcome) -> Answer:
    return lambda _keys: outcome


# -- output ---------------------------------------------------------------------------------------

READ = [
    (HTTP, PAGE, "output.data.items", [1, 2]), (HTTP, PAGE, "output.body.items", [1, 2]),
    (HTTP, PAGE, "output.response.items", [1, 2]), (HTTP, PAGE, "output.items", [1, 2]),
    (HTTP, PAGE, "output.response.status_code", 200), (HTTP, PAGE, "output.status_code", 200),
    (HTTP, PAGE, "output.status", "ok"), (HTTP, PAGE, "output.error", None),
    (HTTP, PAGE, "output", {"status_code": 200, "headers": {}, "data": {"items": [1, 2]}}),
    (QUERY, ROWS, "output.rows", [{"id": 5}]), (QUERY, ROWS, "output.row_count", 1),
    (QUERY, ROWS, "output.data.rows", [{"id": 5}]), (QUERY, ROWS, "output.data.row_count", 1),
    (QUERY, ROWS, "output.data[0].id", 5),
    ("kind: noop", ok({"v": 7}), "output.v", 7), ("kind: noop", ok({"v": 7}), "output.data.v", 7),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "outcome", "text", "value"), READ)
@pytest.mark.parametrize("place", [
    "spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.got: '{{ TEXT }}'}}}}]}}",
    "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {got: '{{ TEXT }}'}}}}]}}",
    "set: {ctx.got: '{{ TEXT }}'}",
], ids=["rule", "rule_ctx", "set"])  # fmt: skip
def test_output_is_what_the_task_came_to_in_its_rules_and_its_set(
    tool: str, outcome: Outcome, text: str, value: Any, place: str
) -> None:
    ran = run(f"- step: start\n  tool: [{{name: a, {tool}, {place.replace('TEXT', text)}}}]", {"a": giving(outcome)})
    assert (ran.status, ran.ctx["got"]) == ("completed", value)


@pytest.mark.parametrize(("tool", "outcome", "text", "value"), READ)
def test_output_is_the_result_of_the_task_before_in_later_tasks(
    tool: str, outcome: Outcome, text: str, value: Any
) -> None:
    later = f"{{name: b, kind: noop, args: {{got: '{{{{ {text} }}}}'}}}}"
    ran = run(f"- step: start\n  tool: [{{name: a, {tool}}}, {later}]", {"a": giving(outcome)})
    assert ran.args("b") == [{"got": value}]


@pytest.mark.parametrize(("tool", "outcome", "text", "value"), READ)
@pytest.mark.parametrize("place", ["args: {got: '{{ TEXT }}'}", "set: {ctx.got: '{{ TEXT }}'}"], ids=["args", "set"])
def test_output_is_the_result_of_the_step_in_its_arcs(
    tool: str, outcome: Outcome, text: str, value: Any, place: str
) -> None:
    ran = run(f"""
    - {{step: start, tool: {{{tool}}}, next: {{arcs: [{{step: end, {place.replace('TEXT', text)}}}]}}}}
    - {{step: end, tool: {{kind: noop, args: {{got: "{{{{ got }}}}"}}}}}}
    """, {"start_task": giving(outcome)})
    assert ran.args("end_task") == [{"got": value}]


@pytest.mark.parametrize(("tool", "outcome", "text", "value"), [
    each for each in READ if each[2] not in ("output", "output.error")])
def test_output_is_there_in_the_set_of_a_step(tool: str, outcome: Outcome, text: str, value: Any) -> None:
    ran = run(f"- {{step: start, tool: {{{tool}}}, set: {{ctx.got: '{{{{ {text} }}}}'}}}}",
              {"start_task": giving(outcome)})
    assert ran.ctx["got"] == value


@pytest.mark.parametrize(("outcome", "step"), [
    (page({"more": True}), "more"), (page({"more": False}), "last"),
    (failed("http", "no", http={"status": 500}), "none"),
])
def test_an_arc_about_outputs_data_takes_no_failure(outcome: Outcome, step: str) -> None:
    ran = run(f"""
    - step: start
      tool: {{{HTTP}}}
      next:
        arcs:
          - {{step: more, when: "{{{{ output.more }}}}"}}
          - {{step: last, when: "{{{{ not output.more }}}}"}}
          - {{step: none, when: "{{{{ output.status == 'error' and output.http.status == 500 }}}}"}}
    - {{step: more, tool: {{kind: noop}}}}
    - {{step: last, tool: {{kind: noop}}}}
    - {{step: none, tool: {{kind: noop}}}}
    """, {"start_task": giving(outcome)})
    assert ran.steps == ["start", step]


@pytest.mark.parametrize(("outcome", "got"), [
    (failed("http", "no"), {"how": "error", "why": "no"}), (ok({}), {"how": "ok", "why": "fine"}),
])
def test_a_later_task_knows_how_the_one_before_ended(outcome: Outcome, got: dict[str, str]) -> None:
    ran = run("""
    - step: start
      tool:
        - {name: a, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
        - {name: b, kind: noop, args: {how: "{{ output.status }}", why: "{{ output.error.message | default('fine') }}"}}
    """, {"a": giving(outcome)})
    assert (ran.status, ran.args("b")) == ("completed", [got])


def test_output_goes_through_sugar() -> None:
    ran = run("""
    - step: start
      tool:
        - {name: a, kind: noop, args: {n: 1}}
        - choose:
            - when: "{{ output.n == 1 }}"
              then: [{name: b, kind: noop, args: {got: "{{ output.n }}"}, set: {ctx.b: "{{ output.got }}"}}]
            - else: [{name: c, kind: noop}]
    """)
    assert (ran.args("b"), ran.ctx) == ([{"got": 1}], {"b": 1})


def test_a_program_reads_it_in_the_open() -> None:
    ran = run("""
    - step: start
      tool: [{name: a, kind: noop, args: {n: 3}}, {name: b, kind: python, code: "result = {{ output.n }} + 1"}]
    """)
    ((_, _), (_, called)) = ran.calls
    assert (list(called["args"].values()), called["code"]) == ([3], f"result = {next(iter(called['args']))} + 1")


def test_a_task_of_the_workbook_reads_its_own_output() -> None:
    book = head("today") + """
workbook: {w: {kind: noop, args: {v: 3}, set: {ctx.got: "{{ output.v }}"}}}
workflow: [{step: start, tool: {kind: workbook, name: w}}]
"""
    plan = compile_playbook(book, kinds=registry.specs()).plan
    assert plan is not None
    assert Ran(plan, {}).ctx == {"got": 3}


def test_before_the_first_task_there_is_no_output() -> None:
    (told,) = compile_playbook(source_of("- {step: start, tool: {kind: noop, args: {a: '{{ output.a }}'}}}", "{x: 1}"),
                               kinds=registry.specs()).diagnostics
    assert (told.code, "output is there in rules, in arcs" in told.fix) == ("DSL910", True)


# -- steps and their tasks ------------------------------------------------------------------------


def test_a_steps_own_name_is_its_result_in_its_rules() -> None:
    ran = run("""
    - step: start
      tool:
        kind: noop
        args: {v: 4}
        spec: {policy: {rules: [{when: "{{ start.v == 4 }}", then: {do: continue, set_ctx: {k: "{{ start.v }}"}}}]}}
      next: {arcs: [{step: again, when: "{{ start.v == 4 }}"}]}
    - {step: again, tool: {kind: noop, args: {v: "{{ start.v }}"}, set: {ctx.l: "{{ again.v + 1 }}"}}}
    """)
    assert ran.ctx == {"k": 4, "l": 5}


def test_a_value_of_the_steps_name_is_left_alone() -> None:
    ran = run("- {step: start, tool: {kind: noop, args: {v: 4}, set: {ctx.k: '{{ start }}'}}}", workload="{start: 9}")
    assert ran.ctx == {"k": 9}


RESULTS = """
- step: start
  tool:
    - {name: a, kind: http, url: "http://localhost/"}
    - {name: b, kind: noop, args: {w: "{{ start.results.a.items }}"}, set: {ctx.own: "{{ start.results.b.w }}"}}
    - {name: c, kind: noop}
  next: {arcs: [{step: end, when: "{{ start.results.b.w == [1, 2] }}"}]}
- step: end
  tool: {kind: noop, args: {a: "{{ start.results.a.data.items }}", s: "{{ start.results.a.status_code }}",
                            b: "{{ start.results.b }}"}}
"""


def test_every_task_of_a_step_is_read_by_its_name() -> None:
    ran = run(RESULTS, {"a": giving(PAGE)})
    assert ran.args("end_task") == [{"a": [1, 2], "s": 200, "b": {"w": [1, 2]}}]
    assert ran.ctx["own"] == [1, 2]


def test_results_of_a_loop_are_those_of_its_iterations() -> None:
    ran = run("""
    - {step: start, loop: {in: [1, 2], iterator: n}, tool: {name: a, kind: noop, args: {n: "{{ n }}"}}, next: end}
    - {step: end, tool: {kind: noop, args: {first: "{{ start.results[0].n }}"}}}
    """)
    assert (ran.args("end_task"), ran.ctx) == ([{"first": 1}], {})


@pytest.mark.parametrize(("tool", "outcome"), [("kind: noop", ok({"v": 1})), (HTTP, page({"v": 1}))])
def test_result_is_that_of_the_step_before(tool: str, outcome: Outcome) -> None:
    ran = run(f"""
    - {{step: start, tool: {{{tool}}}, next: end}}
    - {{step: end, tool: {{kind: noop, args: {{v: "{{{{ result.v }}}}", all: "{{{{ result }}}}"}}}}}}
    """, {"start_task": giving(outcome)})
    assert ran.args("end_task") == [{"v": 1, "all": {"v": 1}}]


def test_result_of_one_of_several_steps_is_told() -> None:
    (told,) = compiled("""
    - {step: start, tool: {kind: noop}, next: [a, b]}
    - {step: a, tool: {kind: noop}, next: end}
    - {step: b, tool: {kind: noop}, next: end}
    - {step: end, tool: {kind: noop, args: {v: "{{ result.v }}"}}}
    """).diagnostics
    assert (told.code, told.severity, told.fix) == (
        "DSL910", "warning",
        "write event.result in an arc, outcome.result in a rule, and elsewhere the name of the step that is meant")


def test_a_result_of_the_playbooks_own_is_left_alone() -> None:
    workflow = """
    - {step: start, tool: {kind: noop, args: {v: 1}}, next: end}
    - {step: end, tool: {kind: noop, args: {v: "{{ result }}"}}}
    """
    assert run(workflow, workload="{result: 5}").args("end_task") == [{"v": 5}]


def test_an_arg_that_is_called_result_takes_that_of_the_step_before() -> None:
    ran = run("""
    - {step: start, tool: {kind: noop, args: {v: 1}}, next: own}
    - {step: own, tool: {kind: noop, args: {result: "{{ result }}"}}, next: asks}
    - {step: asks, tool: {kind: python, code: "def main(result): return result"}, next: bound}
    - step: bound
      args: {result: "{{ result.v }}"}
      tool: {kind: python, args: {w: "{{ result }}"}, code: "def main(result, w): return [result, w]"}
    """, {"own_task": giving(ok({"v": 2})), "asks_task": giving(ok({"v": 3}))})
    assert (ran.args("own_task"), ran.args("asks_task")) == ([{"result": {"v": 1}}], [{"result": {"v": 2}}])
    assert ran.args("bound_task") == [{"result": 3, "w": 3}]


def test_a_result_that_an_arc_brings_is_the_arcs() -> None:
    ran = run("""
    - {step: start, tool: {kind: noop, args: {v: 1}}, next: [{step: end, args: {result: 8}}]}
    - {step: end, tool: {kind: noop, args: {v: "{{ result }}"}}}
    """)
    assert ran.args("end_task") == [{"v": 8}]


# -- the execution and the clock ------------------------------------------------------------------


def test_the_execution_is_named_by_its_job() -> None:
    ran = run("- {step: start, tool: {kind: noop, args: {a: '{{ job.execution_id }}', b: '{{ job.uuid }}'}}}")
    (args,) = ran.args("start_task")
    assert args == {"a": "x1", "b": "x1"}


@pytest.mark.parametrize("text", ["now()", "now().isoformat()"])
def test_the_time_of_a_decision_is_in_its_record(text: str) -> None:
    ran = run(f"""
    - {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: end, args: {{at: "{{{{ {text} }}}}"}}}}]}}}}
    - {{step: end, tool: {{kind: noop, args: {{at: "{{{{ at }}}}"}}}}}}
    """, workload=f'{{began: "{{{{ {text} }}}}"}}')
    stamps = {record.ts for record in ran.driver.log}
    assert ran.args("end_task")[0]["at"] in stamps
    assert ran.driver.state.workload["began"] in stamps
    assert ran.driver.violations() == []


def test_a_clock_where_no_decision_is_made_is_told() -> None:
    (told,) = compile_playbook(source_of(
        "- {step: start, loop: {in: '{{ [now()] }}', iterator: n}, tool: {kind: noop}}", "{x: 1}"),
        kinds=registry.specs()).diagnostics
    assert (told.code, told.message, "now() is there in workload" in told.fix) == (
        "DSL910", "nothing here is what '{{ [now()] }}' asks for", True)


# -- editions -------------------------------------------------------------------------------------


def test_an_execution_that_began_before_reads_them_as_it_did() -> None:
    workflow = """
    - {step: start, tool: {kind: noop, args: {more: true}}, next: {arcs: [{step: a, when: "{{ output.more }}"}]}}
    - {step: a, tool: {kind: noop}}
    """
    former, today = compiled(workflow, 2).plan, compiled(workflow).plan
    assert former is not None
    assert today is not None
    assert (Ran(former, {}).steps, Ran(today, {}).steps) == (["start"], ["start", "a"])


def test_a_canonical_playbook_comes_back_as_it_is() -> None:
    workflow = """
    - step: start
      tool:
        - {name: a, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: 1}}}}]}}}
        - {name: b, kind: noop, args: {v: "{{ _prev }}"}}
      next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
    - {step: end}
    """
    loose, strict = (compile_playbook(source_of(workflow), kinds=registry.specs(), strict=strict)
                     for strict in (False, True))
    assert loose.plan == strict.plan


def test_an_error_names_what_the_author_wrote() -> None:
    ran = run("- {step: start, tool: {kind: noop, args: {a: 1}, set: {ctx.k: '{{ output.nothing }}'}}}",
              {"start_task": answer({})})
    assert ran.error["message"] == "policy of task start_task: the value is undefined, in `{{ output.nothing }}`"
