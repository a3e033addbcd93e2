"""What a rule can say about its task's answer and its retries: `result`, `error`, `multiplier`, `max_delay`."""

from typing import Any

import pytest

from shared.dsl.model.plan import Directive
from shared.engine.pipeline.decide import backoff
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import Driver, plan_of

ANSWER = """
- step: start
  tool:
    - {name: fetch, kind: noop}
    - {name: store, kind: noop}
    - {name: last, kind: noop, spec: {policy: {rules: [{else: {then: {do: break, result: "RESULT"}}}]}}}
"""


def work(_step: str, task: str, _names: dict[str, Any]) -> Outcome:
    if task == "fetch":
        return ok({"status_code": 200, "headers": {}, "data": {"n": 1}}, shape="http")
    return ok({"stored": 2} if task == "store" else None)


@pytest.mark.parametrize(("written", "value", "shape"), [
    ("fetch", {"status_code": 200, "headers": {}, "data": {"n": 1}}, "http"), ("_prev", {"stored": 2}, "value"),
    ("{{ [fetch.n, store.stored] }}", [1, 2], "value"),
])
def test_a_rule_can_answer_with_another_result(written: str, value: Any, shape: str) -> None:
    result = Driver(plan_of(ANSWER.replace("RESULT", written)), work).run().state.results["start"]
    assert (result.value, result.shape) == (value, shape)


def test_a_rule_can_fail_with_an_error_kept_before() -> None:
    workflow = """
    - step: start
      tool:
        - name: fetch
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: continue, set_iter: {why: "{{ outcome.error }}"}}
                - else: {then: {do: continue}}
        - {name: last, kind: noop, spec: {policy: {rules: [{else: {then: {do: fail, error: "ERROR"}}}]}}}
    """
    def broken(_step: str, task: str, _names: dict[str, Any]) -> Outcome:
        return failed("http", "gone") if task == "fetch" else ok(None)

    run = Driver(plan_of(workflow.replace("ERROR", "{{ iter.why }}")), broken).run()
    assert run.state.error is not None
    assert (run.state.error["kind"], run.state.error["message"]) == ("http", "gone")
    run = Driver(plan_of(workflow.replace("ERROR", "{{ 'it ' ~ iter.why.message }}")), broken).run()
    assert run.state.error is not None
    assert (run.state.error["kind"], run.state.error["message"]) == ("policy", "it gone")


def test_a_failed_call_tells_routing_its_status_or_code() -> None:
    plan = plan_of("- {step: start, tool: {kind: noop}}")
    web = Driver(plan, lambda *_: failed("x", "no", http={"status": 404})).run().state.error or {}
    sql = Driver(plan, lambda *_: failed("x", "no", pg={"code": "23505"})).run().state.error or {}
    assert (web["status"], sql["code"]) == (404, "23505")


def test_backoff_grows_by_its_multiplier_up_to_its_cap() -> None:
    then = Directive("retry", attempts=9, backoff="exponential", multiplier=3.0, max_delay=20.0)
    assert [round(backoff(then, attempt, 1.0, "k") / backoff(then, 1, 1.0, "k")) for attempt in (1, 2, 3)] == [1, 3, 9]
    assert backoff(then, 9, 1.0, "k") == 20.0


@pytest.mark.parametrize(("then", "code"), [
    ("{do: continue, result: nothing}", "DSL602"), ("{do: continue, error: '{{ 1 }}'}", "DSL503"),
    ("{do: retry, attempts: 2, multiplier: 2}", "DSL503"), ("{do: retry, attempts: 2, max_delay: 0}", "DSL204"),
])
def test_what_does_not_fit_is_refused(then: str, code: str) -> None:
    with pytest.raises(AssertionError, match=code):
        plan_of(f"- {{step: start, tool: {{kind: noop, spec: {{policy: {{rules: [{{else: {{then: {then}}}}}]}}}}}}}}")
