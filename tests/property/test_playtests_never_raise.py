"""Whatever stands in a test of a playbook: it is taken or refused, and what is taken can be run."""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from services.cli.testing.faults import FAULTS
from services.cli.testing.runner import Options, run_files
from services.cli.testing.suites import Suite
from services.cli.testing.text import show
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.playtests.read import compile_test
from tests.support.inputs.trees import replaced
from tests.unit.answers.playtests.lab import SHOP, TEST, book, pretend

BOOK = book(SHOP)
TREE = yaml.safe_load(TEST + """
run: [python]
with: []
mocks: [{step: pay, result: [{id: "{{ iter.item }}"}], after: 1s}]
cases:
  - name: a
    payload: {limit: 5, items: [1, 2]}
    now: "2026-01-31T06:00:00Z"
    order: any
    mocks:
      - {step: start, task: price, attempt: 1, nth: 1, run: 1, error: {status: 503}}
      - {step: start, when: "{{ call.url }}", outcome: {status: ok, result: {price: 3}, http: {status: 200}}}
    signals: [{name: go, payload: 1, at: 5m}]
    cancel: {at: 1h, reason: enough}
    expect:
      status: completed
      path: [start, pay]
      steps: {pay: {runs: 1, status: done, iterations: 2, failed: 0}}
      ctx: {price: 3}
      result: []
      calls: {start.price: 2}
      elapsed: {least: 1s, most: 1m}
      that: ["{{ ctx.price == 3 }}"]
""")
words = st.sampled_from([
    "start", "pay", "price", "result", "error", "outcome", "status", "mocks", "cases", "{{ call.url }}",
    "{{ nothing.x }}", "{{ ctx", "{{ iter.item }}", "/(/", "/a+/", "1h", "5", "any", "failed", "cancelled",
    "book.yaml", "shop", "",
])
scalars = st.one_of(words, st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.none())
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_test_with_anything_in_it(data: st.DataObject) -> None:
    tree: Any = TREE
    for _ in range(data.draw(st.integers(1, 3))):
        tree = replaced(tree, data, values, words)
    compiled = compile_test(yaml.safe_dump(tree), lambda name: BOOK.plan if name == "book.yaml" else "not there")
    assert (compiled.test is None) == any(each.severity == "error" for each in compiled.diagnostics)
    assert all(each.code in CODES and each.line and each.column and each.fix for each in compiled.diagnostics)
    file = Suite("t.test.yaml", compiled, (BOOK,))
    for report in run_files([file], Options(faults=FAULTS, seeds=2), pretend, {}):
        show(report)


json = st.recursive(
    st.one_of(words, st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none(),
              st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(words, json, max_size=3), json, json, json, json)
def test_a_test_with_any_data_runs_to_its_verdict(
    payload: dict[str, Any], items: Any, answer: Any, wanted: Any, error: Any
) -> None:
    case = {"name": "a", "payload": {**payload, "items": items}, "mocks": [{"step": "start", "result": answer}],
            "signals": [{"name": "go", "payload": answer}],
            "expect": {"ctx": {"price": wanted}, "result": wanted, "error": {"message": error}}}
    tree = {**TREE, "cases": [case]}
    compiled = compile_test(yaml.safe_dump(tree), lambda _: BOOK.plan)
    for report in run_files([Suite("t.test.yaml", compiled, (BOOK,))], Options(faults=FAULTS, seeds=2), pretend, {}):
        show(report)
        assert all(case.passed == (not case.failures) for case in report.cases)
