"""What the rules of a `case` read of a call that failed: FS §8.3, FX §10.3."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.templates.evaluate import evaluate
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran, page, run, step_of

BODY = {"detail": "no such order", "error": "E7"}
MISSING = failed("http", "404 Not Found", shape="http", http={"status": 404, "headers": {}},
                 result={"status_code": 404, "headers": {"x-id": "9"}, "data": BODY, "url": "http://x"})
UNREACHED = failed("connect", "refused", retryable=True, http={"status": None, "headers": {}})
ROUTED = """
- step: start
  tool: {kind: http, url: "http://x"}
  case:
    - when: "{{ WHEN }}"
      then: {next: [{step: taken, args: {got: "{{ GOT }}"}}]}
    - when: "{{ event.name == 'call.error' }}"
      then: {next: other}
  next: other
- {step: taken, tool: {kind: noop, args: {got: "{{ args.got }}"}}}
- {step: other, tool: {kind: noop}}
"""
ACTING = ROUTED.replace("then: {next: [", 'then: {set: {kept: "{{ GOT }}"}, next: [')
BOTH = pytest.mark.parametrize("workflow", [ROUTED, ACTING], ids=["in arcs", "on the worker"])


def on(workflow: str, outcome: Outcome, when: str, got: str = "1") -> Ran:
    if "step.exit" in when:  # where the call's event leads would stand
        workflow = workflow.replace("event.name == 'call.error'", "event.name == 'step.exit'")
    return run(workflow.replace("WHEN", when).replace("GOT", got), {"start_task": lambda _keys: outcome})


@BOTH
@pytest.mark.parametrize("when", [
    "event.name == 'call.error' and response.status_code == 404", "event.name == 'call.error' and response.error",
    "event.name == 'call.error' and this.status_code == 404",
    "event.name == 'step.exit' and response.status_code == 404",
    "event.name == 'call.error' and response.data.detail == 'no such order'",
    "event.name == 'call.error' and this.data.error == 'E7'",
    "event.name == 'call.error' and result.detail == 'no such order'",
    "event.name == 'call.error' and response.detail == 'no such order'", "response.error.kind == 'http'",
    "event.name == 'call.error' and response.headers['x-id'] == '9'", "this.status == 'error'",
    "event.name == 'call.error' and 'no such' in result.detail",
    "event.name == 'call.error' and output.data.error == 'E7'",
])
def test_a_rule_reads_what_a_failed_call_answered(workflow: str, when: str) -> None:
    ran = on(workflow, MISSING, when)
    assert (ran.steps, ran.status) == (["start", "taken"], "completed")
    wrong = when.replace("404", "405").replace("no such", "such a").replace("E7", "E8").replace("'9'", "8")
    wrong = wrong.replace("'http'", "'python'")
    if wrong != when:
        assert on(workflow, MISSING, wrong).steps == ["start", "other"]


@BOTH
@pytest.mark.parametrize(("got", "wanted"), [
    ("response.status_code", 404), ("this.status_code", 404), ("response.data", BODY),
    ("this.data.detail", BODY["detail"]),
    ("result", BODY), ("result.detail", BODY["detail"]), ("response.error.kind", "http"), ("this.status", "error"),
    ("this.error.message", "404 Not Found"), ("response is defined", False), ("'yes' if response else 'no'", "no"),
    ("response.headers", {"x-id": "9"}), ("error.status_code", 404),
])
def test_what_a_rule_does_reads_what_a_failed_call_answered(workflow: str, got: str, wanted: Any) -> None:
    ran = on(workflow, MISSING, "event.name == 'call.error'", got)
    assert (ran.args("taken_task"), ran.status) == ([{"got": wanted}], "completed")
    assert workflow is ROUTED or ran.ctx["kept"] == wanted


@BOTH
@pytest.mark.parametrize("name", ["response", "this"])
def test_as_a_whole_it_is_an_envelope(workflow: str, name: str) -> None:
    """FS §8.3: status, data, error."""
    (found,) = on(workflow, MISSING, "event.name == 'call.error'", name).args("taken_task")
    got = found["got"]
    assert (got["status"], got["status_code"], got["data"]) == ("error", 404, BODY)
    assert (got["error"]["kind"], got["error"]["message"]) == ("http", "404 Not Found")


@BOTH
def test_without_an_answer_there_is_an_error_alone(workflow: str) -> None:
    assert on(workflow, UNREACHED, "event.name == 'call.error' and response.status_code == 404").steps[-1] == "other"
    got = "[response.status_code | default('none'), response.data | default('none'), response.error.kind]"
    ran = on(workflow, UNREACHED, "event.name == 'call.error' and response.error.retryable", got)
    assert [each["got"][2] for each in ran.args("taken_task")] == ["connect"]


@pytest.mark.parametrize("outcome", [
    failed("python", "ValueError: no"), failed("shell", "exit 3", result={"exit_code": 3}),
])
@BOTH
def test_of_other_kinds_there_is_the_error_and_what_they_gave(workflow: str, outcome: Outcome) -> None:
    workflow = workflow.replace('{kind: http, url: "http://x"}', "{kind: noop}")
    when = f"event.name == 'call.error' and response.error.kind == '{(outcome.error or {})['kind']}'"
    ran = on(workflow, outcome, when, "[response.data.exit_code | default(0), response.status_code | default(0)]")
    assert ran.args("taken_task") == [{"got": [3 if outcome.result else 0, 0]}]


@BOTH
@pytest.mark.parametrize("when", [
    "event.name == 'step.exit' and response", "event.name == 'step.exit' and response is defined",
    "event.name == 'step.exit' and result is not none and result", "response.status_code == 404",
    "event.name == 'step.exit' and response.status_code == 200", "not error and response", "response.data.detail",
])
def test_whether_there_is_a_response_still_asks_for_a_success(workflow: str, when: str) -> None:
    assert on(workflow, MISSING, when).steps == ["start", "other"]


@BOTH
@pytest.mark.parametrize(("when", "got", "wanted"), [
    ("event.name == 'call.done' and response.status_code == 200", "response.data", {"n": 5, "error": "E"}),
    ("event.name == 'step.exit' and response", "result.n", 5), ("response.error == 'E'", "response.error", "E"),
    ("this.status == 'ok'", "this.data.n", 5), ("event.name == 'call.done'", "response.status_code", 200),
])
def test_a_success_is_read_as_before(workflow: str, when: str, got: str, wanted: Any) -> None:
    ran = on(workflow, page({"n": 5, "error": "E"}), when, got)
    assert (ran.steps, ran.args("taken_task")) == (["start", "taken"], [{"got": wanted}])


def test_a_step_that_fails_again_without_an_answer_does_not_show_the_one_before() -> None:
    workflow = """
    - step: start
      tool: {kind: http, url: "http://x"}
      case:
        - when: "{{ event.name == 'call.error' and response.data.detail }}"
          then: {next: again}
        - {when: "{{ event.name == 'call.error' }}", then: {next: last}}
    - {step: again, tool: {kind: noop}, next: start}
    - {step: last, tool: {kind: noop}}
    """
    outcomes = [MISSING, UNREACHED]
    ran = run(workflow, {"start_task": lambda _keys: outcomes.pop(0)})
    assert ran.steps == ["start", "again", "start", "last"]


def test_in_a_loop_each_iteration_has_the_answer_of_its_call() -> None:
    ran = run("""
    - step: start
      loop: {in: [1, 2], iterator: n, mode: sequential}
      spec: {policy: {failure: {mode: best_effort}}}
      tool: {kind: http, url: "http://x"}
      case:
        - when: "{{ event.name == 'call.error' and response.status_code == 404 }}"
          then: {sink: {tool: noop, args: {of: "{{ response.data.detail }}"}}}
    """, {"start_task": lambda _keys: MISSING})
    assert ran.args("start_case_1_sink") == [{"of": "no such order"}] * 2


@pytest.mark.parametrize("retry", [
    '{max_attempts: 3, retry_when: "{{ response.status_code == 404 }}"}',
    '{max_attempts: 3, retry_when: "{{ result.error == \'E7\' }}"}',
    '[{when: "{{ response.status_code == 404 }}", then: {max_attempts: 3}}]',
])
def test_a_retry_reads_what_a_failed_call_answered(retry: str) -> None:
    workflow = f"- {{step: start, tool: {{kind: http, url: 'http://x'}}, retry: {retry}}}"
    ran = run(workflow, {"start_task": lambda _keys: MISSING})
    assert len(ran.calls) == 3


def test_the_rules_of_a_task_that_fail_keep_its_answer_too() -> None:
    workflow = ROUTED.replace('url: "http://x"', 'url: "http://x", spec: {policy: {rules: [{when: '
                              "\"{{ outcome.status == 'error' }}\", then: {do: fail, set_ctx: {own: 1}}}]}}")
    ran = on(workflow, MISSING, "event.name == 'call.error'", "response.data.detail")
    assert (ran.args("taken_task"), ran.ctx["own"]) == ([{"got": BODY["detail"]}], 1)


def test_an_arc_of_any_router_reads_the_status_of_a_failed_call() -> None:
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x"}
      next:
        arcs:
          - {step: wrong, when: "{{ response.status_code == 404 }}"}
          - {step: taken, when: "{{ event.name == 'step.failed' and response.status_code == 404 }}"}
    - {step: wrong, tool: {kind: noop}}
    - {step: taken, tool: {kind: noop}}
    """, {"start_task": lambda _keys: MISSING})
    assert ran.steps == ["start", "taken"]


def test_a_rule_about_a_failed_status_that_names_no_event_is_told() -> None:
    workflow = ROUTED.replace("WHEN", "response.status_code == 404").replace("GOT", "1")
    found = compile_playbook(head("t") + "workflow:\n" + workflow, kinds=registry.specs()).diagnostics
    assert [each.code for each in found] == ["DSL930"]


def test_before_the_fourth_edition_there_was_nothing() -> None:
    workflow = ROUTED.replace("WHEN", "event.name == 'call.error' and response.status_code == 404").replace("GOT", "1")
    source = head("t") + "workflow:\n" + workflow
    plan = compile_playbook(source, kinds=registry.specs(), edition=3).plan
    assert plan is not None
    assert Ran(plan, {"start_task": lambda _keys: MISSING}).steps == ["start", "other"]
    assert Ran(plan, {"start_task": lambda _keys: ok(1)}).steps == ["start", "other"]


@pytest.mark.parametrize(("outcome", "rule"), [
    (failed("python", "boom"),
     "{when: \"{{ event.name == 'call.error' }}\", then: {set: {a: \"{{ nope.x }}\", b: 1}, next: b}}"),
    (ok(1), "{when: \"{{ event.name == 'call.done' }}\", then: {set: {a: \"{{ nope.x }}\"}}}"),
    (ok(1), "{when: \"{{ event.name == 'step.enter' }}\", then: {set: {a: \"{{ nope.x }}\"}}}"),
])
def test_no_rule_takes_the_failure_of_what_a_rule_does(outcome: Outcome, rule: str) -> None:
    workflow = f"""
    - step: start
      tool: {{kind: noop}}
      case:
        - {rule}
        - {{when: "{{{{ event.name == 'call.error' }}}}", then: {{next: b}}}}
        - {{when: "{{{{ event.name == 'step.exit' and error }}}}", then: {{next: b}}}}
    - {{step: b, tool: {{kind: noop}}}}
    """
    ran = run(workflow, {"start_task": lambda _keys: outcome})
    assert (ran.status, ran.steps) == ("failed", ["start"])
    failure = outcome.error or {"kind": "template"}
    assert ran.error["kind"] == failure["kind"]
    assert ran.error.get("rule_error", ran.error)["kind"] == "template"
    told = run(workflow.replace("event.name == 'step.exit' and error", "event.name == 'step.failed'"),
               {"start_task": lambda _keys: outcome})
    assert (told.status, told.steps) == ("completed", ["start", "b"])


def test_a_rule_still_takes_a_failure_of_what_the_call_is_given() -> None:
    workflow = """
    - step: start
      args: {x: "{{ nope.x }}"}
      tool: {kind: noop}
      case: [{when: "{{ event.name == 'call.error' }}", then: {set: {a: 1}, next: b}}]
    - {step: b, tool: {kind: noop}}
    """
    assert run(workflow).steps == ["start", "b"]
    when = step_of(workflow).arcs[-1].when
    assert evaluate(when, {"event": {"name": "call.error", "error": {"kind": "timeout"}}}) is True  # of no task


@pytest.mark.parametrize("act", ["set: {n: 1}", "sink: {tool: noop, args: {n: 1}}"])
def test_what_a_rule_cannot_do_at_the_end_of_a_loop_is_told(act: str) -> None:
    source = head("t") + f"""workflow:
  - step: start
    loop: {{in: [1], iterator: n}}
    tool: {{kind: noop}}
    case: [{{when: "{{{{ event.name == 'loop.done' }}}}", then: {{{act}, next: b}}}}]
  - {{step: b, tool: {{kind: noop}}}}
"""
    assert [each.code for each in compile_playbook(source, kinds=registry.specs()).diagnostics] == ["DSL301"]
    assert compile_playbook(source, kinds=registry.specs(), edition=3).plan is not None


@BOTH
@pytest.mark.parametrize("when", ["event.error", "event.error.kind == 'http'", "'error' in event.name"])
def test_a_rule_about_the_error_of_the_event_takes_a_failure_and_acts_whole(workflow: str, when: str) -> None:
    ran = on(workflow, MISSING, when)
    assert (ran.steps, ran.ctx.get("kept", 1)) == (["start", "taken"], 1)
    assert on(workflow, page({}), when).steps == ["start", "other"]


def test_a_rule_that_leads_by_what_one_iteration_gave_is_told() -> None:
    source = head("t") + """workflow:
  - step: start
    loop: {in: [1, 2], iterator: i}
    tool: {kind: noop, args: {i: "{{ i }}"}}
    case:
      - {when: "{{ event.name == 'call.done' and result.i == 2 }}", then: {next: b}}
      - {when: "{{ event.name == 'loop.done' }}", then: {next: b}}
  - {step: b, tool: {kind: noop}}
"""
    assert "DSL903" in [each.code for each in compile_playbook(source, kinds=registry.specs()).diagnostics]


def test_the_status_of_a_failed_sink_is_not_that_of_the_call() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      case:
        - when: "{{ event.name == 'call.error' }}"
          then: {sink: {tool: {kind: http, url: "http://x"}, args: {m: "{{ error.message }}"}}, next: b}
    - {step: b, tool: {kind: noop}}
    """
    error = run(workflow, {"start_task": lambda _keys: failed("python", "boom"),
                           "start_case_1_sink": lambda _keys: MISSING}).error
    assert (error["message"], error["sink_error"]["message"]) == ("boom", "404 Not Found")
    assert "status" not in error
