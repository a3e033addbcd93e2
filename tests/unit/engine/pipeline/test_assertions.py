"""What tasks assert, and the parts of a stored result that are read without loading it."""

from typing import Any

import pytest

from shared.dsl.model.plan import Task
from shared.dsl.templates.evaluate import evaluate
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.result_view import view
from shared.engine.pipeline.assertions import MAX_SELECTED_BYTES, expected, kept
from shared.engine.values.scope import narrow, visible
from shared.engine.values.stored_values import resolve, shrink_result
from shared.events.model import Scope
from shared.events.outcome import Outcome, Ref, Result, failed, ok
from tests.unit.engine.support import Driver, plan_of

REF = Ref("nats", "x1/abc", "abc", 900_000, "value")
LARGE = Result(None, "value", REF, {"status": "ok", "id": 7})


def task(**keys: Any) -> Task:
    return Task("t", "noop", {}, **keys)


# -- assert ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "missing"), [
    ({"args": {"a": 1, "b": 0}}, []), ({"args": {"a": 1}}, ["b"]), ({"args": {"a": None, "b": ""}}, ["a"]),
    ({}, ["a", "b"]), ({"args": [1]}, ["a", "b"]),
])  # fmt: skip
def test_a_call_needs_the_args_it_expects(config: dict[str, Any], missing: list[str]) -> None:
    wrong = expected(task(expects=("a", "b")), config)
    assert (wrong.error or {})["missing"] == missing if wrong is not None else missing == []


@pytest.mark.parametrize(("outcome", "error"), [
    (ok({"a": None}), None),
    (ok({"b": 1}), "task t returned no a"),
    (ok([1, 2]), "task t returned no a"),
    (ok({"status_code": 200, "headers": {}, "data": {"a": 1}}, shape="http"), None),
    (failed("http", "busy"), "busy"),
])  # fmt: skip
def test_a_result_needs_the_keys_the_task_returns(outcome: Outcome, error: str | None) -> None:
    found = kept(task(returns=("a",)), outcome)
    assert (found.error or {}).get("message") == error


def test_a_broken_assertion_is_an_outcome_that_rules_can_handle() -> None:
    plan = plan_of("""
    - step: start
      tool:
        - name: call
          kind: noop
          assert: {returns: [score]}
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.error.kind == 'assert' }}"
                  then: {do: continue, set_ctx: {missing: "{{ outcome.error.missing }}"}}
                - else: {then: {do: continue}}
    """)
    driver = Driver(plan, lambda *_: ok({"points": 3})).run()
    assert (driver.state.status, driver.state.ctx) == ("completed", {"missing": ["score"]})


def test_a_broken_assertion_fails_a_task_without_rules() -> None:
    driver = Driver(plan_of("- {step: start, tool: {kind: noop, assert: {returns: [a]}}}"), lambda *_: ok({})).run()
    assert (driver.state.error or {})["kind"] == "assert"


# -- output_select --------------------------------------------------------------------------------


def test_the_selected_parts_are_kept_by_their_last_name() -> None:
    found = kept(task(select=("status", "data.items[1].id", "nosuch.part")), ok(
        {"status": "ok", "data": {"items": [{"id": 1}, {"id": 2}]}}))
    assert found.fields == {"status": "ok", "id": 2}


def test_parts_that_are_large_themselves_are_not_kept() -> None:
    assert kept(task(select=("a",)), ok({"a": "x" * MAX_SELECTED_BYTES})).fields == {}


def test_a_stored_result_keeps_its_parts_beside_the_reference() -> None:
    blobs: dict[str, bytes] = {}
    small = shrink_result("x1", Result({"a": 1, "rest": "x" * 100}, fields={"a": 1}), 50, blobs)
    assert (small.value, small.fields, len(blobs)) == (None, {"a": 1}, 1)


@pytest.mark.parametrize(("text", "loads"), [
    ("{{ big.status }}", False), ("{{ big['id'] }} {{ big._ref is defined }}", False),
    ("{{ big._ref }}", False), ("{{ big.items }}", True), ("{{ big }}", True), ("{{ big.status }}{{ big.data }}", True),
])  # fmt: skip
def test_reading_only_selected_parts_never_loads_the_whole(text: str, loads: bool) -> None:
    scope = narrow(names_used(text), {}, {}, {"big": LARGE})
    assert (scope.steps["big"].ref is not None) is loads


def test_selected_parts_and_the_reference_are_read_from_the_result() -> None:
    reads = {"id": "{{ big.id }}", "ref": "{{ big._ref.key }}", "store": "{{ big._store }}",
             "size": "{{ big._size_bytes }}"}
    scope = narrow(names_used(reads), {}, {}, {"big": LARGE})
    assert evaluate(reads, visible("x1", scope, {})) == {"id": 7, "ref": "x1/abc", "store": "nats", "size": 900_000}


def test_a_loaded_result_says_the_same_and_more() -> None:
    whole = resolve(LARGE, {"abc": {"status": "ok", "data": {"id": 7}, "items": [1, 2]}})
    reads = {"id": "{{ big.id }}", "items": "{{ big['items'] }}", "ref": "{{ big._ref is defined }}"}
    found = evaluate(reads, visible("x1", Scope({}, {}, {"big": whole}), {}))
    assert found == {"id": 7, "items": [1, 2], "ref": True}


def test_a_result_that_is_not_stored_has_no_reference() -> None:
    seen = {"small": view(Result({"a": 1}))}
    assert evaluate("{{ small._ref is defined }}", seen) is False


def test_the_result_of_a_step_is_that_of_its_main_task_with_its_parts() -> None:
    plan = plan_of("""
    - step: start
      tool: {kind: noop, output_select: [data.id]}
      sink: {tool: noop}
      next: [{step: a, args: {n: "{{ start.id }}"}}]
    - {step: a, tool: {kind: noop}}
    """)
    driver = Driver(plan, lambda *_: ok({"data": {"id": 4}})).run()
    assert driver.state.results["start"].fields == {"id": 4}
    assert driver.state.status == "completed"
