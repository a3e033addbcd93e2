"""--faults: cases under crashes, duplicates and other orders end as they do without, and what does not is told."""

from typing import Any

import pytest

from services.cli.testing.faults import FAULTS
from services.cli.testing.runner import MAX_FINDINGS, Options
from shared.answers.rehearsal.step_run import Hold
from tests.unit.answers.playtests.lab import SHOP, book, one
from tests.unit.answers.playtests.test_cases import CALLER, GOOD, PATIENT

ALL = Options(faults=FAULTS, seeds=40)
RACE = """
metadata: {name: race, path: race}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    tool:
      - name: work
        kind: http
        url: http://x/a
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: {$append: a}}}}}]}}
  - step: b
    tool:
      - name: work
        kind: http
        url: http://x/b
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: {$append: b}}}}}]}}
"""
BOTH = "mocks: [{step: a, result: 1}, {step: b, result: 2}]"


def test_a_case_ends_the_same_under_every_fault_and_says_which_calls_came_twice() -> None:
    case = one(SHOP, GOOD, options=ALL)
    assert case.passed, case.failures
    assert case.explored is not None
    assert case.explored.runs == 40
    assert case.explored.crashes > 0
    assert set(case.explored.again) <= {"start.price", "pay.pay_task"}
    assert sum(case.explored.again.values()) > 0


def test_waits_signals_and_compensation_hold_under_faults() -> None:
    case = one(PATIENT, """
    cases:
      - name: enough
        cancel: {at: 5m}
        mocks: [{step: undo, result: {}}]
        expect: {status: cancelled}
    """, options=ALL)
    assert case.passed, case.failures


def test_called_playbooks_hold_under_faults() -> None:
    case = one(CALLER, """
    with: [shop.yaml]
    mocks:
      - {playbook: shop, step: start, result: {price: 1}, after: 3s}
      - {playbook: shop, step: pay, result: [{id: "{{ iter.item }}"}], after: 1s}
    cases: [{name: both are paid}]
    """, book(SHOP, "shop.yaml"), options=ALL)
    assert case.passed, case.failures
    assert case.explored is not None
    assert set(case.explored.again) <= {"shop:start.price", "shop:pay.pay_task"}
    assert case.explored.again


def test_what_depends_on_the_order_is_told_with_its_seed_and_the_first_other_decision() -> None:
    case = one(RACE, f"cases: [{{name: race, {BOTH}}}]", options=ALL)
    assert not case.passed
    first = case.failures[0]
    assert first.what == "faults"
    assert first.seed is not None
    assert f"--faults crash,dup,reorder --seed {first.seed} --seeds 1" in first.message
    assert 'ctx.seen[0] is "b" instead of "a"' in first.message
    assert first.expected == 'ctx.patched by a:1: {"seen":{"$append":"a"}}'
    assert first.got == 'ctx.patched by b:1: {"seen":{"$append":"b"}}'


def test_the_seed_that_is_told_brings_the_same_failure_back() -> None:
    test = f"cases: [{{name: race, {BOTH}}}]"
    seed = one(RACE, test, options=ALL).failures[0].seed
    assert seed is not None
    again = one(RACE, test, options=Options(faults=FAULTS, seeds=1, seed=seed))
    assert [failure.seed for failure in again.failures] == [seed] * len(again.failures)
    assert again.failures


def test_a_case_may_say_that_the_order_does_not_matter_and_what_holds_in_every_order() -> None:
    assert one(RACE, f"cases: [{{name: race, order: any, {BOTH}}}]", options=ALL).passed
    held = 'expect: {that: ["{{ ctx.seen | sort == [\'a\', \'b\'] }}"]}'
    assert one(RACE, f"cases: [{{name: race, order: any, {BOTH}, {held}}}]", options=ALL).passed
    broken = held.replace("ctx.seen | sort == ['a', 'b']", "ctx.seen[0] == 'a'")
    case = one(RACE, f"cases: [{{name: race, order: any, {BOTH}, {broken}}}]", options=ALL)
    assert [failure.what for failure in case.failures][:1] == ["faults"]


def test_without_other_orders_nothing_depends_on_them() -> None:
    test = f"cases: [{{name: race, {BOTH}}}]"
    assert one(RACE, test, options=Options(faults=("dup",), seeds=20)).passed


def test_an_engine_that_breaks_a_promise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Hold.__init__

    def careless(self: Hold, *place: Any, **_fresh: bool) -> None:
        begin(self, *place, fresh=True)  # nobody looks whether the run was held before

    monkeypatch.setattr(Hold, "__init__", careless)
    case = one(SHOP, GOOD, options=Options(faults=("crash",), seeds=40))
    assert case.explored is not None
    assert {finding.what for finding in case.explored.findings} == {"history"}
    assert len(case.failures) == len(case.explored.findings) <= MAX_FINDINGS


def test_a_case_that_fails_plainly_is_not_explored() -> None:
    case = one(RACE, "cases: [{name: race}]", options=ALL)
    assert (case.passed, case.explored) == (False, None)
