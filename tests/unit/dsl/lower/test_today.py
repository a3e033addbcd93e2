"""What playbooks of today write at the root, on routers, and on tasks, beside the formal dialect."""

from textwrap import dedent, indent
from typing import Any

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.lower.root import RUNTIME
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran, run, step_of, task_of

HEAD = head("today")
ONE = "- {step: start, tool: {kind: noop}}"


def compiled(workflow: str = ONE, root: str = "", *, strict: bool = False) -> Compiled:
    source = HEAD + root + "workflow:\n" + indent(dedent(workflow), "  ")
    return compile_playbook(source, kinds=registry.specs(), strict=strict)


def plan_of(workflow: str = ONE, root: str = "") -> Plan:
    found = compiled(workflow, root)
    assert found.plan is not None, [str(each) for each in found.diagnostics]
    return found.plan


def codes(workflow: str = ONE, root: str = "", *, strict: bool = False) -> list[str]:
    return [each.code for each in compiled(workflow, root, strict=strict).diagnostics]


# -- executor -------------------------------------------------------------------------------------


def test_an_executor_may_name_its_runtime_its_profile_and_what_it_needs() -> None:
    executor = f"{{profile: auto, version: {RUNTIME}, requires: {{tools: [http, noop], features: [loop]}}}}"
    assert codes(root=f"executor: {executor}\n") == []


@pytest.mark.parametrize(("executor", "code"), [
    ("{version: noetl-runtime/9}", "DSL204"),
    ("{profile: cloud}", "DSL204"),
    ("{requires: {tools: [teleport]}}", "DSL405"),
    ("{requires: {features: [telepathy]}}", "DSL204"),
    ("{requires: {memory: 5}}", "DSL201"),
    ("{requires: {tools: http}}", "DSL203"),
    ("{spec: {no_next_is_error: 1}}", "DSL203"),
    ("{spec: {final_step: start}}", "DSL701"),
    ("{spec: {entry_step: nowhere}}", "DSL403"),
])  # fmt: skip
def test_what_the_runtime_does_not_have_is_told(executor: str, code: str) -> None:
    assert codes(root=f"executor: {executor}\n") == [code]


def test_an_execution_begins_with_the_entry_step() -> None:
    steps = "- {step: other, tool: {kind: noop}, next: end}\n- {step: end}"
    plan = plan_of(steps, "executor: {spec: {entry_step: other}}\n")
    assert Ran(plan, {}).steps == ["other", "end"]


def test_without_start_the_fix_names_the_first_step() -> None:
    (told,) = compiled("- {step: begin, tool: {kind: noop}}").diagnostics
    assert (told.code, "entry_step: begin" in told.fix) == ("DSL402", True)


def test_a_default_timeout_bounds_every_step() -> None:
    plan = plan_of(root="executor: {spec: {policy: {defaults: {timeout_s: 30}}}}\n")
    assert plan.steps["start"].timeout_s == 30


# -- inputs ---------------------------------------------------------------------------------------


def test_a_root_spec_of_data_is_read_as_spec() -> None:
    plan = plan_of("- {step: start, tool: {kind: noop, args: {got: '{{ spec.state }}'}}}", "spec: {state: ready}\n")
    assert Ran(plan, {}).args("start_task") == [{"got": "ready"}]


def test_a_root_spec_of_an_executor_is_told() -> None:
    assert codes(root="spec: {pool: big}\n") == ["DSL307"]


def test_tracing_is_warned_about_and_left_out() -> None:
    assert codes(root="tracing: {enabled: true}\n") == ["DSL903"]
    assert codes(root="tracing: {enabled: true}\n", strict=True) == ["DSL701"]


def test_a_credential_may_call_its_kind_type() -> None:
    assert plan_of(root="keychain: [{name: k, type: bearer}]\n").keychain == ({"name": "k", "kind": "bearer"},)


# -- steps named by a path ------------------------------------------------------------------------


def test_a_step_named_by_a_path_gets_a_plain_name_and_is_found_by_it() -> None:
    plan = plan_of("""
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: tests/basic}]}}
    - {step: tests/basic, tool: {kind: noop}, next: [/tests/more]}
    - step: /tests/more
      tool: {kind: noop, args: {step: tests/basic}}
      case: [{when: "{{ result }}", then: {next: [{step: 1st/last}]}}]
    - {step: 1st/last, tool: {kind: noop}}
    """)
    ran = Ran(plan, {})
    assert ran.steps == ["start", "tests_basic", "tests_more", "step_1st_last"]
    assert ran.args("tests_more_task") == [{"step": "tests/basic"}]  # a value, not the name of a step
    assert plan.steps["tests_basic"].desc == "tests/basic"
    assert plan.origins["tests_basic"].what == "step tests/basic"


def test_a_plain_name_is_like_no_other() -> None:
    plan = plan_of("- {step: start, next: a/b}\n- {step: a/b, next: a_b}\n- {step: a_b, tool: {kind: noop}}")
    assert list(plan.steps) == ["start", "a_b_2", "a_b"]


def test_a_path_that_is_given_twice_is_a_duplicate() -> None:
    assert codes("- {step: start, next: a/b}\n- {step: a/b, next: end}\n- {step: a/b, next: end}\n- {step: end}") == [
        "DSL401"]


def test_the_entry_step_may_be_a_path() -> None:
    assert plan_of("- {step: a/b, tool: {kind: noop}}", "executor: {spec: {entry_step: a/b}}\n").start == "a_b"


# -- routers --------------------------------------------------------------------------------------

ROUTES = """
- step: start
  tool: {{kind: noop, args: {{n: 1}}}}
  next: {{spec: {{{spec}}}, arcs: [{arcs}]}}
- {{step: a, tool: {{kind: noop}}}}
"""
TWO = "{step: a, when: '{{ start.n == 2 }}'}"


@pytest.mark.parametrize("choice", ["quiet", "complete"])
def test_a_branch_that_nothing_matches_ends(choice: str) -> None:
    ran = run(ROUTES.format(spec=f"on_no_match: {choice}", arcs=TWO))
    assert (ran.status, ran.steps) == ("completed", ["start"])


@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
@pytest.mark.parametrize(("n", "status"), [(1, "failed"), (2, "completed")])
def test_a_router_that_must_match_fails_when_nothing_does(mode: str, n: int, status: str) -> None:
    arcs = f"{TWO}, {{step: a, when: '{{{{ start.n == 3 }}}}'}}"
    ran = run(ROUTES.format(spec=f"mode: {mode}, on_no_match: fail", arcs=arcs), {"start_task": lambda _: ok({"n": n})})
    assert ran.status == status
    if status == "failed":
        assert (ran.error["kind"], ran.error["message"]) == ("no_match", "no arc of step start matches")


@pytest.mark.parametrize("case", ["", "case: [{when: '{{ result.n == 2 }}', then: {next: a}}], "])
def test_no_next_is_error_is_about_every_router(case: str) -> None:
    workflow = f"""
    - {{step: start, tool: {{kind: noop, args: {{n: 1}}}}, {case}next: {{arcs: [{TWO}]}}}}
    - {{step: a, tool: {{kind: noop}}}}
    """
    ran = Ran(plan_of(workflow, "executor: {spec: {no_next_is_error: true}}\n"), {})
    assert (ran.status, ran.error["kind"]) == ("failed", "no_match")


def test_a_router_that_always_matches_needs_no_more() -> None:
    assert list(plan_of("- {step: start, next: end}\n- {step: end}",
                        "executor: {spec: {no_next_is_error: true}}\n").steps) == ["start", "end"]


def test_on_no_match_of_another_kind_is_told() -> None:
    assert codes(ROUTES.format(spec="on_no_match: explode", arcs=TWO)) == ["DSL204"]
    assert codes(ROUTES.format(spec="on_no_match: quiet", arcs=TWO), strict=True) == ["DSL301"]


@pytest.mark.parametrize(("outcome", "steps"), [
    (ok({"exit_code": 0}), ["start", "b"]),
    (failed("shell", "100", details={"exit_code": 100}), ["start", "a"]),
])
def test_cond_is_an_expression_without_braces_that_knows_the_exit_code(outcome: Any, steps: list[str]) -> None:
    ran = run("""
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: a, cond: exit_code == 100}, {step: b, cond: exit_code == 0}]}
    - {step: a, tool: {kind: noop}}
    - {step: b, tool: {kind: noop}}
    """, {"start_task": lambda _: outcome})
    assert (ran.status, ran.steps) == ("completed", steps)


# -- tasks ----------------------------------------------------------------------------------------


def test_text_in_backticks_is_taken_as_it_is() -> None:
    ran = run("""
    - {step: start, tool: {kind: noop, args: {a: "x {{`{{json .}}`}} {{ 1 + 1 }}", b: "{{` it's `}}"}}}
    """)
    assert ran.args("start_task") == [{"a": "x {{json .}} 2", "b": " it's "}]


@pytest.mark.parametrize("key", ["timeout", "timeout_s", "timeout_seconds"])
def test_a_timeout_beside_the_tools_keys_is_its_knob(key: str) -> None:
    assert task_of(f"- {{step: start, tool: {{kind: noop, {key}: 5}}}}", "start_task").spec["timeout"] == 5


@pytest.mark.parametrize(("kind", "calls"), [("timeout", 2), ("connect", 2), ("config", 1)])
def test_a_task_is_tried_again_on_the_errors_it_names(kind: str, calls: int) -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, retry: {max_attempts: 2, retry_on: [timeout, connection_error], backoff: 0}}
    """, {"start_task": lambda _: failed(kind, "no")})
    assert (ran.status, len(ran.calls)) == ("failed", calls)


def test_retry_of_a_task_has_the_shapes_of_a_step() -> None:
    (again, fails, goes_on) = task_of("""
    - step: start
      tool: {kind: noop, retry: {max_attempts: 4, initial_delay: 2, retry_when: "{{ error.retryable }}"}}
    """, "start_task").rules or ()
    assert (again.then.do, again.then.attempts, again.then.delay) == ("retry", 4, 2)
    assert (fails.then.do, goes_on.then.do) == ("fail", "continue")


@pytest.mark.parametrize(("retry", "code"), [
    ("{retry_on: [moonlight]}", "DSL204"), ("{retry_on: [timeout], backof: 1}", "DSL201"),
    ("{backoff: sideways}", "DSL204"), ("[{when: '{{ 1 }}', then: {params: {p: 1}}}]", "DSL301"),
])  # fmt: skip
def test_what_a_task_cannot_retry_is_told(retry: str, code: str) -> None:
    assert codes(f"- {{step: start, tool: {{kind: noop, retry: {retry}}}}}") == [code]


def test_an_argument_without_a_value_is_a_place_for_one() -> None:
    found = task_of("- {step: start, args: {n: 3}, tool: {kind: python, args: {n: null, m: null}, code: result = n}}",
                    "start_task")
    assert found.config["args"] == {"n": "{{ iter.n }}", "m": None}


# -- results --------------------------------------------------------------------------------------


def test_result_of_a_step_selects_on_its_last_task() -> None:
    found = step_of("""
    - step: start
      tool: [{one: {kind: noop}}, {two: {kind: noop}}]
      result: {store: {kind: auto}, output_select: [status, data.id], inline_max_bytes: 5000}
    """)
    assert [task.select for task in found.tasks] == [(), ("status", "data.id")]
    assert found.max_payload_bytes == 5000


@pytest.mark.parametrize(("spec", "limit"), [("", 65_536), ("spec: {policy: {limits: {max_payload_bytes: 9}}}, ", 9)])
def test_a_step_that_selects_keeps_more_than_64_kib_by_reference(spec: str, limit: int) -> None:
    found = step_of(f"- {{step: start, {spec}tool: {{kind: noop}}, result: {{output_select: [a]}}}}")
    assert found.max_payload_bytes == limit


def test_a_size_threshold_is_a_limit_of_the_step() -> None:
    found = step_of("""
    - {step: start, tool: {kind: noop, output_select: {strategy: size_threshold, threshold_kb: 100}}}
    """)
    assert (found.tasks[0].select, found.max_payload_bytes) == ((), 102400)


@pytest.mark.parametrize(("keys", "code"), [
    ("result: {store: {kind: gcs}}", "DSL903"),
    ("result: {store: s3}", "DSL903"),
    ("result: {output_select: [a]}, loop: {in: [1], iterator: x}", "DSL903"),
    ("result: {stores: 1}", "DSL201"),
    ("result: 5", "DSL203"),
])  # fmt: skip
def test_what_a_result_cannot_be_is_told(keys: str, code: str) -> None:
    assert codes(f"- {{step: start, tool: {{kind: noop}}, {keys}}}") == [code]
    assert codes(f"- {{step: start, tool: {{kind: noop}}, {keys}}}", strict=True)[-1:] == ["DSL301"]


@pytest.mark.parametrize(("select", "code"), [
    ("{strategy: magic}", "DSL204"), ("{threshold_kb: 0}", "DSL204"), ("{threshold_kb: 1, more: 2}", "DSL204"),
    ("status", "DSL203"), ("[a.id, b.id]", "DSL401"), ("['a b']", "DSL204"),
    (str([f"k{n}" for n in range(51)]), "DSL801"),
])  # fmt: skip
def test_what_cannot_be_selected_is_told(select: str, code: str) -> None:
    assert codes(f"- {{step: start, tool: {{kind: noop, output_select: {select}}}}}") == [code]


def test_a_step_and_its_task_do_not_both_select() -> None:
    keys = "tool: {kind: noop, output_select: [a]}, result: {output_select: [b]}"
    assert codes(f"- {{step: start, {keys}}}") == ["DSL401"]


def test_selecting_in_a_loop_is_warned_about_on_the_task_too() -> None:
    assert codes("- {step: start, loop: {in: [1], iterator: x}, tool: [{t: {kind: noop, output_select: [a]}}]}") == [
        "DSL903"]


@pytest.mark.parametrize(("given", "code"), [
    ("[a]", "DSL203"), ("{expect: [a]}", "DSL201"), ("{expects: a}", "DSL203"), ("{returns: [1]}", "DSL203"),
    ("{returns: " + str([f"k{n}" for n in range(101)]) + "}", "DSL801"),
])  # fmt: skip
def test_what_cannot_be_asserted_is_told(given: str, code: str) -> None:
    assert codes(f"- {{step: start, tool: {{kind: noop, assert: {given}}}}}") == [code]


# -- loops ----------------------------------------------------------------------------------------

LOOP = """
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: "{{ workload.most }}"}}
  tool: {kind: noop}
"""


def test_the_window_of_a_loop_is_evaluated_once_when_it_starts() -> None:
    ran = run(LOOP, workload="{most: 2}")
    (started,) = ran.driver.find(ev.LoopStarted)
    assert (ran.status, started.max_in_flight) == ("completed", 2)
    assert [event.count for event in ran.driver.find(ev.IterationStarted)] == [2, 1]


@pytest.mark.parametrize("most", ["0", "1001", "'2'", "true", "1.5", "null"])
def test_a_window_that_is_no_number_in_range_fails_the_loop(most: str) -> None:
    ran = run(LOOP, workload=f"{{most: {most}}}")
    assert (ran.status, ran.error["kind"]) == ("failed", "loop")
    assert ran.error["message"].startswith("max_in_flight: must be a whole number from 1 to 1000, not ")


def test_a_window_that_cannot_be_evaluated_fails_the_loop() -> None:
    ran = run(LOOP.replace("workload.most", "nosuch"))
    assert (ran.status, ran.error["kind"]) == ("failed", "loop")


def test_the_window_of_a_sequential_loop_has_no_effect() -> None:
    assert codes(LOOP.replace("mode: parallel, ", ""), "workload: {most: 1}\n") == ["DSL903"]


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "step"), [
    (ok({"status_code": 200, "headers": {}, "data": {}}, shape="http"), "a"),
    (failed("http", "no", http={"status": 401}), "b"),
])
def test_arcs_of_a_router_may_read_the_response(outcome: Any, step: str) -> None:
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://localhost/"}
      next: {arcs: [{step: a, when: "{{ response.status_code == 200 }}"}, {step: b, when: "{{ error.status == 401 }}"}]}
    - {step: a, tool: {kind: noop}}
    - {step: b, tool: {kind: noop}}
    """, {"start_task": lambda _: outcome})
    assert ran.steps == ["start", step]


def test_a_response_of_the_playbooks_own_is_left_alone() -> None:
    workflow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: a, when: "{{ response == 5 }}"}]}}
    - {step: a, tool: {kind: noop}}
    """
    assert run(workflow, workload="{response: 5}").steps == ["start", "a"]


def test_the_workload_may_read_the_payload_of_the_request() -> None:
    workflow = "- {step: start, tool: {kind: noop, args: {got: '{{ workload.user }}'}}}"
    ran = run(workflow, workload="{user: '{{ payload.user_id }}'}", user_id=7)
    assert ran.args("start_task") == [{"got": 7}]


@pytest.mark.parametrize(("text", "fix"), [("token('x')", "keychain.name.field")])
def test_functions_that_are_not_there_are_told_with_what_to_write(text: str, fix: str) -> None:
    (told,) = compiled(f'- {{step: start, tool: {{kind: noop, args: {{a: "{{{{ {text} }}}}"}}}}}}',
                       "workload: {b: 1}\n").diagnostics
    assert (told.code, fix in told.fix) == ("DSL910", True)


def test_what_is_collected_is_the_result_without_a_warning() -> None:
    assert codes("""
    - step: start
      tool: {kind: http, url: "http://localhost/", params: {page: 1}}
      case:
        - when: "{{ event.name == 'step.exit' and response.more }}"
          then: {collect: {into: pages}, call: {params: {page: 2}}}
        - when: "{{ event.name == 'step.exit' }}"
          then: {collect: {into: pages}, result: {from: ctx.pages}}
    """) == []


def test_many_warnings_hide_no_error() -> None:
    steps = "".join(f"- {{step: s{n}, tool: {{kind: noop}}, result: {{store: gcs}}, next: end}}\n" for n in range(600))
    found = compiled(f"- {{step: start, next: s0}}\n{steps}- {{step: end, result: 5, tool: {{kind: noop}}}}")
    told = [each.code for each in found.diagnostics]
    assert found.plan is None
    assert (told.count("DSL203"), "DSL802" in told, told.count("DSL903")) == (1, True, 101)
