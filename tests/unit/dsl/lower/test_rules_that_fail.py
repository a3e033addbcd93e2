"""A mistake in a rule is told as what it is: beside what the call came to, and taken by no handler of the call."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.tools import registry
from tests.unit.dsl.lower.support import Ran, page, run
from tests.unit.engine.support import source_of

GONE = failed("http", "503 Service Unavailable", shape="http", http={"status": 503, "headers": {}},
              result={"status_code": 503, "headers": {}, "data": {"why": "tired"}})
RETRIED = """
- step: start
  tool: {kind: http, url: "http://x"}
  retry: RETRY
  case:
    - when: "{{ event.name == 'EVENT' }}"
      then: {SETnext: handler}
  next: other
- {step: handler, tool: {kind: noop}}
- {step: other, tool: {kind: noop}}
"""
MISTAKES = ["{max_attempts: 3, retry_when: \"{{ result.n.foo() > 3 }}\"}",
            "{max_attempts: 3, stop_when: \"{{ result.n.foo() }}\"}",
            "[{when: \"{{ result.n.foo() }}\", then: {max_attempts: 3}}]",
            "[{when: \"{{ response.status_code.foo() }}\", then: {max_attempts: 3}}]"]
BOTH = pytest.mark.parametrize("does", ["", "set: {x: 1}, "], ids=["leads", "acts"])


def tried(retry: str, outcome: Any, *, event: str = "call.error", does: str = "") -> Ran:
    workflow = RETRIED.replace("RETRY", retry).replace("EVENT", event).replace("SET", does)
    return run(workflow, {"start_task": lambda _keys: outcome})


@BOTH
@pytest.mark.parametrize("retry", MISTAKES)
def test_a_mistake_in_a_retry_is_no_failure_of_a_call_that_went_well(retry: str, does: str) -> None:
    ran = tried(retry, page({"n": 5}), does=does)
    assert (ran.steps, ran.status, ran.ctx) == (["start"], "failed", {})
    error = ran.error
    assert (error["kind"], error["call"], error["task"], error["step"]) == ("template", "ok", "start_task", "start")
    assert "foo" in error["message"]
    assert "status" not in error  # a failed call has one


@pytest.mark.parametrize("retry", MISTAKES[:1])
def test_what_the_call_came_to_is_kept(retry: str) -> None:
    ran = tried(retry, page({"n": 5}))
    (done,) = [event for event in ran.driver.find(ev.TaskDone) if event.task == "start_task"]
    assert (done.outcome.status, done.outcome.result["data"], done.outcome.http) == ("error", {"n": 5}, {"status": 200})


@BOTH
def test_after_a_failed_call_its_error_stays_with_that_of_the_rule_beside_it(does: str) -> None:
    ran = tried(MISTAKES[3], GONE, does=does)
    assert (ran.steps, ran.status, ran.ctx) == (["start"], "failed", {})
    assert (ran.error["kind"], ran.error["status"], ran.error["message"]) == ("http", 503, GONE.error["message"])
    assert "foo" in ran.error["rule_error"]["message"]


@pytest.mark.parametrize("outcome", [page({"n": 5}), GONE], ids=["went well", "failed"])
def test_a_rule_that_names_the_failed_step_takes_it(outcome: Any) -> None:
    assert tried(MISTAKES[3], outcome, event="step.failed").steps == ["start", "handler"]


@pytest.mark.parametrize("retry", [
    "{max_attempts: 2, initial_delay: 0}", "{max_attempts: 2, retry_when: \"{{ error }}\"}"])
@BOTH
def test_a_failed_call_still_leads_to_its_handler(retry: str, does: str) -> None:
    ran = tried(retry, GONE, does=does)
    assert (ran.steps, ran.status, ran.ctx.get("x")) == (["start", "handler"], "completed", 1 if does else None)


HANDLED = """
- step: start
  tool: {kind: http, url: "http://x"}
  case:
    - when: "{{ event.name == 'call.error' }}"
      then: {THEN, next: handler}
- {step: handler, tool: {kind: noop}}
"""


@pytest.mark.parametrize("then", [
    "set: {a: \"{{ nope.x }}\", b: 1}",
    "sink: {tool: noop, when: \"{{ error.foo() }}\", args: {a: 1}}",
], ids=["set", "when of a sink"])
def test_a_mistake_in_a_handler_does_not_hide_what_it_handles(then: str) -> None:
    ran = run(HANDLED.replace("THEN", then), {"start_task": lambda _keys: GONE})
    assert (ran.steps, ran.status) == (["start"], "failed")
    assert (ran.error["kind"], ran.error["status"], ran.error["task"]) == ("http", 503, "start_task")
    wrong = ran.error["rule_error"]
    assert wrong["kind"] == "template"
    assert "nope.x" in wrong["message"] or "foo" in wrong["message"]


def test_a_failure_that_was_handled_is_not_told_of_a_later_mistake() -> None:
    ran = run("""
    - step: start
      tool:
        - name: fetch
          kind: http
          url: "http://x"
          spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: jump, to: other}},
                                  {else: {then: {do: continue}}}]}}
        - {name: other, kind: http, url: "http://y"}
        - {name: last, kind: noop, spec: {policy: {rules: [{when: "{{ _attempt.foo() }}", then: {do: continue}}]}}}
    """, {"fetch": lambda _keys: GONE, "other": lambda _keys: page(1)})
    assert (ran.error["kind"], ran.error["task"], "rule_error" in ran.error) == ("template", "last", False)


# -- rules of a sink's own tool

STORED = """
- step: start
  tool: {kind: http, url: "http://x"}
  case:
    - when: "{{ event.name == 'call.done' }}"
      then: {sink: {tool: {kind: noop, spec: {policy: {rules: RULES}}}, args: {a: 1}}, next: one}
    - when: "{{ event.name == 'step.exit' and response }}"
      then: {sink: {tool: noop, args: {a: 2}}, next: two}
    - when: "{{ event.name == 'call.error' }}"
      then: {next: handler}
- {step: one, tool: {kind: noop}}
- {step: two, tool: {kind: noop}}
- {step: handler, tool: {kind: noop}}
"""
SINK, OTHER = "start_case_1_sink", "start_case_2_sink"


def stored(rules: str, *outcomes: Any) -> Ran:
    left = list(outcomes)
    return run(STORED.replace("RULES", rules), {
        "start_task": lambda _keys: page(1), SINK: lambda _keys: left.pop(0)})


def sinks(ran: Ran) -> list[str]:
    return [name for name, _ in ran.calls if "sink" in name]


@pytest.mark.parametrize("rules", [
    "[{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2}}]",
    "[{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2}}, {else: {then: {do: continue}}}]",
    "[{else: {then: {do: break, set_ctx: {was: 1}}}}]", "[{when: true, then: {do: continue}}]",
])
def test_what_the_rules_of_a_sink_let_pass_goes_the_way_of_its_step(rules: str) -> None:
    ran = stored(rules, ok(1))
    assert (sinks(ran), ran.steps, ran.status) == ([SINK, OTHER], ["start", "one"], "completed")
    assert ran.ctx.get("was") == (1 if "was" in rules else None)


def test_rules_of_a_sink_try_again_and_then_fail_as_that_sink() -> None:
    rules = "[{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2}}]"
    assert sinks(stored(rules, GONE, ok(1))) == [SINK, SINK, OTHER]
    ran = stored(rules, GONE, GONE)
    assert (sinks(ran), ran.steps, ran.status) == ([SINK, SINK], ["start"], "failed")
    assert (ran.error["sink"], ran.error["kind"]) == (SINK, "http")


@pytest.mark.parametrize(("rules", "outcome", "kind"), [
    ("[{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}]", GONE, "http"),
    ("[{else: {then: {do: fail}}}]", GONE, "http"), ("[{else: {then: {do: fail}}}]", ok(1), "policy"),
    ("[{when: \"{{ outcome.result == 1 }}\", then: {do: fail}}]", ok(1), "policy"),
    ("[{when: \"{{ outcome.result == 2 }}\", then: {do: continue}}]", GONE, "http"),
])
def test_a_failure_by_the_rules_of_a_sink_is_the_sinks(rules: str, outcome: Any, kind: str) -> None:
    ran = stored(rules, outcome)
    assert (sinks(ran), ran.steps, ran.status) == ([SINK], ["start"], "failed")
    assert (ran.error["kind"], ran.error["sink"]) == (kind, SINK)


def test_rules_of_a_sink_cannot_jump() -> None:
    source = source_of(STORED.replace("RULES", "[{else: {then: {do: jump, to: start_task}}}]"))
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is None
    assert [each.code for each in compiled.diagnostics if each.severity == "error"] == ["DSL301"]


def test_an_error_that_the_rules_of_a_sink_let_pass_passes() -> None:
    ran = stored("[{when: \"{{ outcome.status == 'error' }}\", then: {do: continue}}]", GONE)
    assert (sinks(ran), ran.status) == ([SINK, OTHER], "completed")
