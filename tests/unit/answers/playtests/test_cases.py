"""Cases run on mocks: which call a mock answers, what is told when one is missing or unused, time and signals."""

import pytest

from shared.answers.playtests.expectations import MAX_DIFFERENCES
from tests.unit.answers.playtests.lab import SHOP, book, one, run, told

GOOD = """
cases:
  - name: all is paid
    mocks:
      - {step: start, result: {price: 7}, after: 2s}
      - {step: pay, result: [{id: "{{ iter.item }}"}]}
    expect:
      path: [start, pay]
      steps: {pay: {runs: 1, iterations: 3, failed: 0, status: done}, refuse: {runs: 0}}
      ctx: {price: 7}
      calls: {start: 1, pay.pay_task: 3, refuse: 0}
      elapsed: 2s
      that: ["{{ result | length == 3 and result[2].rows[0].id == 3 }}", "{{ ctx.price < workload.limit }}"]
"""


def test_a_case_that_goes_as_expected_passes() -> None:
    case = one(SHOP, GOOD)
    assert (case.passed, case.failures) == (True, [])


def test_every_expectation_that_does_not_hold_is_told_with_what_came() -> None:
    case = one(SHOP, """
    cases:
      - name: wrong in all ways
        payload: {items: [1]}
        mocks:
          - {step: start, result: {price: 7}}
          - {step: pay, result: [{id: 1}]}
        expect:
          status: failed
          path: [start, refuse]
          steps: {pay: {runs: 2}}
          ctx: {price: 8, other: 1}
          result: [{rows: [{id: 2}], row_count: 1, columns: [id]}]
          error: {kind: http}
          calls: {start.price: 5}
          elapsed: 1m
          that: ["{{ ctx.price == 9 }}", "{{ nothing.there }}"]
    """)
    found = told(case)
    assert found[:-1] == [
        ("status", "failed", "completed"),
        ("path", ["start", "refuse"], ["start", "pay"]),
        ("steps.pay.runs", 2, 1),
        ("ctx.price", 8, 7),
        ("ctx.other", 1, None),
        ("result[0].rows[0].id", 2, 1),
        ("error", {"kind": "http"}, None),
        ("calls.start.price", 5, 1),
        ("elapsed", 60.0, 0.0),
        ("that", "{{ ctx.price == 9 }}", False),
    ]
    assert "nothing" in found[-1][2]
    assert not case.passed


def test_a_failure_is_matched_by_the_keys_of_its_error_and_by_regular_expressions() -> None:
    test = """
    cases:
      - name: no shop
        mocks: [{step: start, error: {status: 404, message: no such shop}}]
        expect: {error: {kind: http, status: %s, message: "/such (shop|house)/", step: start}}
    """
    assert one(SHOP, test % 404).passed
    assert told(one(SHOP, test % 500)) == [("error.status", 500, 404)]
    assert told(one(SHOP, test.replace("such (", "sich (") % 404)) == [
        ("error.message", "/sich (shop|house)/", "no such shop")]


def test_the_first_mock_that_fits_answers_by_attempt() -> None:
    case = one(SHOP, """
    cases:
      - name: tried again
        mocks:
          - {step: start, attempt: 1, result: {status_code: 503}}
          - {step: start, attempt: 2, error: {status: 503}}
          - {step: start, result: {price: 11}}
        run: [python]
        expect:
          path: [start, refuse]
          calls: {start.price: 3}
          elapsed: {least: 18s, most: 22s}
          result: {ran: python}
    """)
    assert case.passed, case.failures


def test_a_mock_is_chosen_by_iteration_and_by_what_the_call_holds() -> None:
    case = one(SHOP, """
    cases:
      - name: one fails
        mocks:
          - {step: start, when: "{{ call.url == 'http://shop/10' }}", result: {price: 1}}
          - {step: pay, iteration: 1, error: {code: "23505", message: twice}}
          - {step: pay, when: "{{ call.command.params == [1] }}", result: [{id: 1}]}
        expect: {error: {kind: postgres, code: "23505", step: pay}, steps: {pay: {failed: 1}}}
    """)
    assert case.passed, case.failures


def test_a_mock_is_chosen_by_run_and_by_the_call_of_a_cycle() -> None:
    polled = """
    metadata: {name: poll, path: poll}
    workflow:
      - step: start
        tool:
          - name: poll
            kind: http
            url: http://x
            spec:
              policy:
                rules:
                  - {when: "{{ outcome.result.data == 'later' }}", then: {do: jump, to: poll}}
                  - else: {then: {do: continue}}
        next: {arcs: [{step: start, when: "{{ start.data == 'again' }}"}, {step: end}]}
      - step: end
    """
    case = one(polled, """
    cases:
      - name: later, again, done
        mocks:
          - {step: start, run: 1, nth: 3, result: again}
          - {step: start, run: 1, result: later}
          - {step: start, run: 2, nth: 1, result: later}
          - {step: start, run: 2, nth: 2, result: done}
        expect: {path: [start, start, end], calls: {start.poll: 5}}
    """)
    assert case.passed, case.failures


def test_a_call_without_a_mock_is_told_with_the_mock_to_paste_and_the_rendered_call() -> None:
    case = one(SHOP, """
    cases:
      - name: forgotten
        mocks: [{step: start, result: {price: 7}}]
    """)
    (failure,) = case.failures
    assert failure.what == "mock"
    assert failure.message == "no mock answers pay.pay_task (postgres), attempt 1"
    assert failure.mock == "- step: pay\n  task: pay_task\n  result:\n    rows: []"
    assert failure.call == {
        "iteration": 0, "command": {"text": "INSERT INTO paid VALUES ($1) RETURNING id", "params": [1]}}


def test_a_mock_of_the_case_that_answers_no_call_fails_it_and_one_of_the_file_is_a_warning() -> None:
    report = run(SHOP, """
    mocks:
      - {step: pay, result: []}
      - {step: refuse, result: never}
    cases:
      - name: paid
        mocks: [{step: start, attempt: 2, result: {price: 1}}, {step: start, result: {price: 1}}]
    """)
    (failure,) = report.cases[0].failures
    assert failure.message == "the mock of start.price on line 10 answers no call"
    assert failure.what == "unused"
    assert report.warnings == ["the mock of refuse.refuse_task on line 7 answers no call of any case"]


def test_a_mock_whose_template_fails_is_told_with_its_line() -> None:
    case = one(SHOP, """
    cases:
      - name: broken
        mocks: [{step: start, result: "{{ nobody.knows }}"}]
    """)
    (failure,) = case.failures
    assert failure.message.startswith("the mock of start.price on line 7: ")
    assert "nobody" in failure.message


PATIENT = """
metadata: {name: patient, path: patient}
workflow:
  - step: start
    spec: {policy: {compensate: undo}}
    tool: {kind: noop, args: {id: 5}}
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: {kind: signal, signal: approved, spec: {timeout: 7200}}
    next:
      arcs: [{step: rest, when: "{{ event.name == 'step.done' and ask.okay }}"}]
  - step: rest
    tool: {kind: wait, for: 1d}
  - step: undo
    tool: {kind: http, url: "http://shop/{{ compensates.id }}", method: DELETE}
"""


def test_signals_come_at_their_time_and_waits_pass_on_the_virtual_clock() -> None:
    case = one(PATIENT, """
    cases:
      - name: approved
        now: "2026-03-01T00:00:00Z"
        signals: [{name: approved, payload: {okay: true}, at: 1h}]
        expect: {path: [start, ask, rest], elapsed: 25h, result: {until: "2026-03-02T01:00:00.000000Z"}}
    """)
    assert case.passed, case.failures


def test_a_cancelled_execution_is_compensated() -> None:
    case = one(PATIENT, """
    cases:
      - name: enough
        cancel: {at: 5m, reason: enough}
        mocks: [{step: undo, when: "{{ call.url == 'http://shop/5' }}", result: {}}]
        expect: {status: cancelled, path: [start, ask, undo], error: {message: /enough/}, calls: {undo: 1}}
    """)
    assert case.passed, case.failures


def test_a_signal_that_does_not_come_is_told() -> None:
    endless = PATIENT.replace(", spec: {timeout: 7200}", "")
    (failure,) = one(endless, "cases: [{name: silence}]").failures
    assert (failure.what, failure.message) == ("stuck", "run ask:1 waits for signal approved, which does not come")


def test_a_playbook_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.tools.testing.case_run.MAX_EVENTS", 200)
    endless = """
    metadata: {name: endless, path: endless}
    workflow: [{step: start, tool: {kind: http, url: http://x}, next: {arcs: [{step: start}]}}]
    """
    (failure,) = one(endless, "cases: [{name: a, mocks: [{step: start, result: 1}]}]").failures
    assert (failure.what, failure.message) == ("stuck", "over 200 events: it does not end")


def test_of_many_differences_the_first_are_told() -> None:
    source = """
    metadata: {name: many, path: many}
    workflow: [{step: start, tool: {kind: noop, args: {x: "{{ range(100) | list }}"}}}]
    """
    case = one(source, f"cases: [{{name: a, expect: {{result: {{x: {list(range(1, 101))}}}}}}}]")
    assert [failure.what for failure in case.failures[:2]] == ["result.x[0]", "result.x[1]"]
    assert [failure.what for failure in case.failures[MAX_DIFFERENCES:]] == ["result"]
    assert case.failures[-1].message == "result is not as expected"


CALLER = """
metadata: {name: caller, path: caller}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n}
    tool: {kind: playbook, path: shop, args: {items: ["{{ iter.n }}"]}}
"""


def test_a_called_playbook_runs_on_mocks_of_its_own() -> None:
    shop = book(SHOP, "shop.yaml")
    case = one(CALLER, """
    with: [shop.yaml]
    cases:
      - name: both are paid
        mocks:
          - {playbook: shop, step: start, result: {price: 1}, after: 3s}
          - {playbook: shop, step: pay, result: [{id: "{{ iter.item }}"}], after: 1s}
        expect:
          elapsed: 8s
          that: ["{{ result[1][0].rows[0].id == 2 }}"]
    """, shop)
    assert case.passed, case.failures


def test_a_called_playbook_may_be_mocked_as_a_whole_or_is_asked_for() -> None:
    assert one(CALLER, "cases: [{name: mocked, mocks: [{step: start, result: 5}], expect: {result: [5, 5]}}]").passed
    (failure,) = one(CALLER, "cases: [{name: forgotten}]").failures
    assert failure.message == "no mock answers start.start_task (playbook), attempt 1"
    assert failure.call == {"iteration": 0, "path": "shop", "args": {"items": [1]}}


def test_a_call_inside_a_called_playbook_without_a_mock_is_told_once_for_that_playbook() -> None:
    (failure,) = one(CALLER, "with: [shop.yaml]\ncases: [{name: forgotten}]", book(SHOP, "shop.yaml")).failures
    assert failure.mock is not None
    assert failure.mock.startswith("- playbook: shop\n  step: start\n  task: price\n")


def test_a_kind_that_may_run_is_run_only_where_no_mock_fits_and_never_with_a_credential() -> None:
    source = """
    metadata: {name: programs, path: programs}
    workflow:
      - step: start
        tool:
          - {name: one, kind: python, code: "result = 1"}
          - {name: two, kind: python, code: "result = 2"}
          - {name: three, kind: python, auth: secret, code: "result = 3"}
    """
    case = one(source, "run: [python]\ncases: [{name: some, mocks: [{step: start, task: two, result: 2}]}]")
    assert [failure.message for failure in case.failures] == ["no mock answers start.three (python), attempt 1"]
    assert case.came is not None
    assert case.came.calls == {"start.one": 1, "start.three": 1, "start.two": 1}


def test_a_child_that_fails_fails_its_task_after_the_time_it_took() -> None:
    case = one(CALLER, """
    with: [shop.yaml]
    cases:
      - name: closed
        mocks: [{playbook: shop, step: start, error: {status: 404, message: closed}, after: 7s}]
        expect: {error: {kind: playbook, message: "/playbook 'shop' .* failed: closed/"}, elapsed: 7s}
    """, book(SHOP, "shop.yaml"))
    assert case.passed, case.failures


def test_a_child_that_takes_too_long_is_a_timeout_of_its_task() -> None:
    limited = CALLER.replace("args:", "spec: {timeout: 5}, args:")
    case = one(limited, """
    with: [shop.yaml]
    cases:
      - name: slow
        mocks: [{playbook: shop, step: start, error: {status: 404}, after: 7s}]
        expect: {error: {kind: timeout}, elapsed: 5s}
    """, book(SHOP, "shop.yaml"))
    assert case.passed, case.failures


def test_nobody_waits_for_a_detached_child_but_its_calls_need_mocks_too() -> None:
    detached = CALLER.replace("path: shop,", "path: shop, mode: detached,")
    test = """
    with: [shop.yaml]
    cases:
      - name: on their own
        mocks: [{playbook: shop, step: start, result: {price: 90}, after: 1h}%s]
        expect: {elapsed: 0s, that: ["{{ result[0].status == 'started' }}"]}
    """
    shop = book(SHOP, "shop.yaml")
    assert one(detached, test % ", {playbook: shop, step: refuse, result: no}", shop).passed
    (failure,) = one(detached, test % "", shop).failures
    assert failure.message == "no mock answers refuse.refuse_task (python), attempt 1, and 1 more call of it"


def test_results_too_large_for_the_log_are_compared_and_covered_as_they_are() -> None:
    source = """
    metadata: {name: large, path: large}
    workflow:
      - step: start
        tool: {kind: http, url: http://x}
        next:
          arcs:
            - {step: end, when: "{{ start.data | length == 20000 }}"}
            - {step: more}
      - step: more
        tool: {kind: noop}
      - step: end
    """
    case = one(source, """
    cases:
      - name: large
        mocks: [{step: start, result: "{{ ['0123456789'] * 20000 }}"}]
        expect: {path: [start, end], that: ["{{ result.data | length == 20000 and result.data[7] == '0123456789' }}"]}
    """)
    assert case.passed, case.failures


def test_places_of_a_limit_are_given_on_the_virtual_clock() -> None:
    source = """
    metadata: {name: limited, path: limited}
    workflow:
      - step: start
        spec: {policy: {limits: {key: shop, rate: 2/m}}}
        loop: {in: [1, 2, 3, 4, 5], iterator: i, spec: {mode: parallel}}
        tool: {kind: http, url: http://x}
    """
    case = one(source, """
    cases:
      - name: five calls at two a minute
        mocks: [{step: start, result: 1}]
        expect: {calls: {start: 5}, elapsed: 2m}
    """)
    assert case.passed, case.failures
