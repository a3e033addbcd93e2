"""kind: Test as a document: what is read, and every mistake with its code, place and fix."""

import pytest

from shared.dsl.playtests.model import (
    MAX_CASES,
    MAX_MOCKS,
    MAX_SIGNALS,
    MAX_WITH,
    Cancel,
    Elapsed,
    Mock,
    Signal,
    StepExpect,
)
from shared.dsl.playtests.read import compile_test
from tests.unit.answers.playtests.lab import SHOP, book, compiled

SHOP_BOOK = book(SHOP)


def faults(test: str) -> list[str]:
    found = compiled(test, SHOP_BOOK)
    assert (found.test is None) == any(each.severity == "error" for each in found.diagnostics)
    return [f"{each.line}:{each.column} {each.code} {each.message} ({each.fix})" for each in found.diagnostics]


def test_everything_that_can_be_written_is_read() -> None:
    found = compiled("""
    desc: The shop.
    run: [duckdb]
    mocks: [{step: pay, result: []}]
    cases:
      - name: everything
        desc: More of it.
        payload: {limit: 3}
        now: "2026-01-31T06:00:00+01:00"
        run: [python]
        order: any
        mocks:
          - {step: start, attempt: 2, nth: 3, run: 1, when: "{{ call.url }}", error: {status: 503}, after: 1m30s}
        signals: [{name: go, payload: [1], at: 90}]
        cancel: {at: 2h, reason: enough}
        expect:
          status: cancelled
          path: [start]
          steps: {pay: {runs: 1, status: failed, iterations: 2, failed: 1}}
          ctx: {a: 1}
          result: null
          calls: {start: 1}
          elapsed: {least: 1s}
          that: ["{{ true }}"]
    """, SHOP_BOOK)
    assert found.diagnostics == ()
    assert found.test is not None
    (case,) = found.test.cases
    assert case.mocks == (Mock("start", "price", "error", {"status": 503}, attempt=2, nth=3, run=1,
                               when="{{ call.url }}", after=90.0, line=16),)
    assert (case.signals, case.cancel) == ((Signal("go", [1], 90.0),), Cancel(7200.0, "enough"))
    assert (case.now, case.run, case.order) == (1_769_835_600.0, ("python", "duckdb"), "any")
    assert case.expect.steps == {"pay": StepExpect(1, "failed", 2, 1)}
    assert (case.expect.status, case.expect.result) == ("cancelled", (None,))
    assert case.expect.elapsed == Elapsed(1.0, 366 * 86_400.0)
    assert found.test.mocks[0].task == "pay_task"


def test_a_case_completes_unless_it_says_otherwise_and_fails_where_an_error_is_expected() -> None:
    found = compiled("cases: [{name: a}, {name: b, expect: {error: {kind: x}}}]", SHOP_BOOK)
    assert found.test is not None
    assert [case.expect.status for case in found.test.cases] == ["completed", "failed"]


@pytest.mark.parametrize(("test", "expected"), [
    ("", "1:1 DSL202 the test has no cases (write cases: [{name: …, mocks: […], expect: {…}}])"),
    ("cases: []", "4:8 DSL204 cases is empty (write cases: [{name: …, mocks: […], expect: {…}}])"),
    ("case: []\ncases: [{name: a}]", "4:1 DSL201 unknown key 'case' in the test (did you mean cases?)"),
    ("cases: [{nam: a, name: b}]", "4:10 DSL201 unknown key 'nam' in a case (did you mean name?)"),
    ("cases: [{}]", "4:9 DSL202 the case has no name (begin it with name: what it shows)"),
    ("cases: [{name: a}, {name: a}]", "4:27 DSL401 there is a case 'a' already (give the case another name)"),
    ("cases: [5]",
     "4:9 DSL203 cases must be a mapping, not a number (write - name: …, with mocks: […] and expect: {…})"),
    ("with: [other.yaml]\ncases: [{name: a}]", "4:8 DSL413 playbook 'other.yaml' cannot be used: there is no such file "
     "(name a playbook that `noetlctl validate` takes, from the folder of the test)"),
    ("with: [book.yaml]\ncases: [{name: a}]",
     "4:8 DSL401 playbook 'book.yaml' has the path 'shop', as another has (name it once)"),
    ("run: [http]\ncases: [{name: a}]", "4:7 DSL204 run cannot be 'http' (one of: python, duckdb, shell)"),
])
def test_mistakes_of_the_file_are_told(test: str, expected: str) -> None:
    assert faults(test) == [expected]


@pytest.mark.parametrize(("mock", "expected"), [
    ("{result: 1}", "4:30 DSL202 the mock has no step (add step: <name>)"),
    ("{step: start}", "4:30 DSL202 the mock does not say what the task answers with (write one of result: …, error: "
     "{kind: …, message: …} or outcome: {status: …})"),
    ("{step: start, result: 1, error: x}", "4:55 DSL204 the mock has result and error (write one of result: …, error: "
     "{kind: …, message: …} or outcome: {status: …})"),
    ("{step: start, result: 1, attempt: 0}",
     "4:64 DSL204 cases.mocks.attempt is 0, outside 1 to 1000000 (a whole number from 1 to 1000000)"),
    ("{step: start, result: 1, after: soon}", "4:62 DSL204 cases.mocks.after 'soon' is not a length of time of at "
     "most 366 days (write after: 30s, 5m, 1h30m or a number of seconds)"),
    ("{step: start, result: 1, when: 5}",
     "4:61 DSL602 cases.mocks.when is 5, not an expression (write when: \"{{ … }}\", or true or false)"),
    ('{step: start, result: "{{ a b }}"}', "4:52 DSL601 template: expected token 'end of print statement', got 'b' "
     "(write an operator before b; ~ joins texts)"),
    ('{step: start, result: "{{ keychain.db.password }}"}', "4:52 DSL603 cases.mocks.result may not read the keychain: "
     "its value is recorded (use auth: <name>, or read keychain in the task's own keys)"),
    ("{step: start, error: {retryable: maybe}}", "4:63 DSL203 mocks.error.retryable must be true or false, not text "
     "(write retryable: true or retryable: false)"),
    ("{step: start, outcome: {result: 1}}", "4:44 DSL202 the outcome has no status (add status: ok or error)"),
    ("{step: start, outcome: {status: ok, error: x}}", "4:66 DSL204 an outcome that is ok has no error (text is given) "
     "(write status: error, or remove it)"),
    ("{step: start, outcome: {status: ok, body: x}}", "4:66 DSL201 unknown key 'body' in an outcome (known here: "
     "status, result, error, http, pg, py, meta)"),
    ("{playbook: chop, step: start, result: 1}", "4:41 DSL413 the test has no playbook 'chop' (did you mean shop?)"),
])
def test_mistakes_of_a_mock_are_told(mock: str, expected: str) -> None:
    assert faults(f"cases: [{{name: a, mocks: [   {mock}]}}]") == [expected]


@pytest.mark.parametrize(("expect", "expected"), [
    ("{status: done}", "4:36 DSL204 cases.expect.status cannot be 'done' (one of: completed, failed, cancelled)"),
    ("{path: start}", "4:34 DSL203 cases.expect.path must be a list, not text (write path: [start, …, end], the steps "
     "as they are entered)"),
    ("{steps: {start: {iterations: 1}}}", "4:44 DSL204 step 'start' has no loop (leave iterations out)"),
    ("{steps: {pay: {run: 1}}}", "4:42 DSL201 unknown key 'run' in expect.steps.pay (did you mean runs?)"),
    ("{calls: {start.price: -1}}", "4:49 DSL204 expect.calls.start.price is -1, outside 0 to 1000000 "
     "(a whole number from 0 to 1000000)"),
    ('{error: {message: "/(/"}}', "4:45 DSL204 '(' is not a regular expression: missing ), unterminated subpattern at "
     "position 0 (a regular expression of at most 500 characters between two slashes)"),
    ("{elapsed: {least: 2s, most: 1s}}", "4:55 DSL204 most is less than least (write a most that is at least least)"),
    ("{that: [1 == 1]}", "4:35 DSL602 cases.expect.that is '1 == 1', not an expression (write that: "
     '["{{ result.rows | length == 3 }}"])'),
    ("{results: 1}", "4:28 DSL201 unknown key 'results' in cases.expect (did you mean result?)"),
])
def test_mistakes_of_an_expectation_are_told(expect: str, expected: str) -> None:
    assert faults(f"cases: [{{name: a, expect: {expect}}}]") == [expected]


@pytest.mark.parametrize(("more", "code"), [
    ("now: yesterday", "DSL204"), ("now: '2026-01-31T06:00:00'", "DSL204"), ("signals: [{payload: 1}]", "DSL202"),
    ("cancel: {when: 1}", "DSL201"), ("order: none", "DSL204"), ("payload: [1]", "DSL203"),
])
def test_mistakes_of_a_case_are_told(more: str, code: str) -> None:
    (found,) = faults(f"cases: [{{name: a, {more}}}]")
    assert found.split()[1] == code


@pytest.mark.parametrize(("test", "most"), [
    ("cases: [%s]", MAX_CASES), ("cases: [{name: a, mocks: [%s]}]", MAX_MOCKS),
    ("cases: [{name: a, signals: [%s]}]", MAX_SIGNALS), ("with: [%s]\ncases: [{name: a}]", MAX_WITH),
])
def test_lists_have_limits(test: str, most: int) -> None:
    found = faults(test % ", ".join(["{}"] * (most + 1)))
    assert [each for each in found if f"DSL801 {most + 1} entries of " in each and f"over the limit of {most}" in each]


def test_names_are_not_looked_at_where_the_playbook_cannot_be_used() -> None:
    found = compiled("cases: [{name: a, expect: {path: [anywhere]}}]")
    assert [each.code for each in found.diagnostics] == ["DSL413"]


def test_another_kind_or_version_is_refused() -> None:
    found = compile_test("apiVersion: noetl.io/v1\nkind: Playbook\nplaybook: x\ncases: [{name: a}]",
                         lambda _: SHOP_BOOK.plan)
    assert [(each.code, each.fix) for each in found.diagnostics] == [
        ("DSL206", "write apiVersion: noetl.io/v2"), ("DSL206", "write kind: Test")]


def test_what_is_not_yaml_is_told() -> None:
    found = compile_test("a: [", lambda _: SHOP_BOOK.plan)
    assert (found.test, [each.code for each in found.diagnostics]) == (None, ["DSL102"])
