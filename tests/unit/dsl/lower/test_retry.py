"""`retry` in both shapes, and repetition with another input."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import page, run, task_of


def after(*outcomes: Outcome) -> Callable[[dict[str, Any]], Outcome]:
    """One outcome per call; the last one stays."""
    waiting = list(outcomes)
    return lambda _keys: waiting.pop(0) if len(waiting) > 1 else waiting[0]


BAD, GOOD = failed("http", "busy", http={"status": 503}), ok({"state": "DONE"})


def test_max_attempts_alone_tries_errors_again() -> None:
    workflow = "- {step: start, tool: {kind: noop}, retry: {max_attempts: 3, initial_delay: 0.5}}"
    assert len(run(workflow, {"start_task": after(BAD, BAD, GOOD)}).calls) == 3
    ran = run(workflow, {"start_task": after(BAD)})
    assert (len(ran.calls), ran.status, ran.error["message"]) == (3, "failed", "busy")


@pytest.mark.parametrize(
    ("test", "outcomes", "calls"),
    [
        ("retry_when: '{{ status_code == 503 }}'", [BAD, GOOD], 2),
        ("retry_when: '{{ status_code == 500 }}'", [BAD, GOOD], 1),
        ("retry_when: \"{{ 'busy' in error }}\"", [BAD, GOOD], 2),
        ("retry_when: '{{ error is defined }}'", [BAD, GOOD], 2),
        ("retry_when: '{{ not success }}'", [BAD, GOOD], 2),
        ("retry_when: '{{ error is not none and attempt < max_attempts }}'", [BAD, BAD, GOOD], 3),
        ("stop_when: \"{{ result.state == 'DONE' }}\"", [ok({"state": "RUNNING"}), GOOD], 2),
        ("stop_when: \"{{ data.state == 'DONE' }}\"", [ok({"state": "RUNNING"})], 4),
        ("stop_when: '{{ success }}', retry_when: '{{ status_code == 503 }}'", [BAD, GOOD], 2),
    ],
)  # fmt: skip
def test_conditions_of_a_retry(test: str, outcomes: list[Outcome], calls: int) -> None:
    workflow = f"- {{step: start, tool: {{kind: noop}}, retry: {{max_attempts: 4, {test}}}}}"
    ran = run(workflow, {"start_task": after(*outcomes)})
    assert len(ran.calls) == calls


def test_backoff_keeps_its_multiplier_and_its_cap() -> None:
    retry = "{max_attempts: 4, initial_delay: 2, backoff_multiplier: %s, max_delay: 9}"
    step = "- {step: start, tool: {kind: noop}, retry: " + retry + "}"
    rules = task_of(step % "1.5", "start_task").rules
    assert rules is not None
    then = rules[0].then
    assert (then.backoff, then.multiplier, then.delay) == ("exponential", 1.5, 2.0)
    assert (then.max_delay, then.attempts) == (9.0, 4)
    rules = task_of(step % "1", "start_task").rules
    assert rules is not None
    assert rules[0].then.backoff == "none"


PAGES = """
- step: start
  tool: {kind: http, url: "http://x", params: {page: 1, size: 2}}
  retry:
    - when: "{{ error.status in [429, 500, 502, 503] }}"
      then: {max_attempts: 3, initial_delay: 1.0, backoff_multiplier: 2.0}
    - when: "{{ response.data.has_more }}"
      then:
        max_attempts: 100
        next_call: {params: {page: "{{ (response.data.page | int) + 1 }}"}}
        collect: {strategy: append, path: data.items, into: pages}
        sink:
          tool: {kind: postgres, auth: pg, table: raw}
          args: {page: "{{ page.data.items }}", n: "{{ _retry.index }}", all: "{{ _retry.count }}"}
  next: two
- {step: two, tool: {kind: noop, args: {all: "{{ start }}"}}}
"""


def paged(last: int, broken: int = 0) -> Callable[[dict[str, Any]], Outcome]:
    left = [BAD] * broken

    def answer(keys: dict[str, Any]) -> Outcome:
        number = int(keys["params"]["page"])
        if number == 2 and left:
            return left.pop()
        return page({"page": number, "has_more": number < last, "items": [number * 10, number * 10 + 1]})

    return answer


def test_pages_are_fetched_stored_and_collected_with_errors_tried_again_on_the_way() -> None:
    """FX §6.1; the page that ends it is stored and collected like the others."""
    ran = run(PAGES, {"start_task": paged(3, broken=2)})
    assert [keys["params"]["page"] for name, keys in ran.calls if name == "start_task"] == [1, 2, 2, 2, 3]
    stored = [keys["args"] for name, keys in ran.calls if name.endswith("sink")]
    assert stored == [{"page": [n * 10, n * 10 + 1], "n": n, "all": of} for n, of in ((1, 1), (2, 4), (3, 5))]
    assert ran.args("two_task") == [{"all": [10, 11, 20, 21, 30, 31]}]


def test_errors_have_their_own_count_on_every_page() -> None:
    ran = run(PAGES, {"start_task": paged(6, broken=2)})
    assert (ran.status, len(ran.result("start"))) == ("completed", 12)
    assert run(PAGES, {"start_task": paged(6, broken=3)}).error["message"] == "busy"


def test_repetition_ends_at_max_attempts() -> None:
    ran = run(PAGES.replace("max_attempts: 100", "max_attempts: 2"), {"start_task": paged(9)})
    assert ran.result("start") == [10, 11, 20, 21]


def test_polling_with_a_delay_between_calls_with_another_input() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 1}}
      retry:
        - when: "{{ response.n < 4 }}"
          then:
            max_attempts: 9
            initial_delay: 2
            backoff_multiplier: 1.1
            next_call: {args: {n: "{{ response.n + 1 }}"}}
    """)
    assert ran.args("start_task") == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    delays = [event.delay for record in ran.driver.log for event in record.events if hasattr(event, "delay")]
    assert len(delays) == 3
    assert delays[0] < 2.3
    assert delays == sorted(delays)


@pytest.mark.parametrize(("strategy", "wanted"), [("extend", [10, 11, 20, 21]), ("append", [10, 11, 20, 21])])
def test_lists_are_collected_as_one_list(strategy: str, wanted: list[int]) -> None:
    ran = run(PAGES.replace("strategy: append", f"strategy: {strategy}"), {"start_task": paged(2)})
    assert ran.result("start") == wanted


def test_single_values_are_appended_and_mappings_merged() -> None:
    ran = run(PAGES.replace("path: data.items", "path: data.page"), {"start_task": paged(2)})
    assert ran.result("start") == [1, 2]
    merged = PAGES.replace("strategy: append, path: data.items", "strategy: merge, path: data")
    ran = run(merged, {"start_task": paged(2)})
    assert ran.result("start") == {"page": 2, "has_more": False, "items": [20, 21]}


def test_rules_of_a_case_that_try_again_and_repeat() -> None:
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x", params: {page: 1}}
      case:
        - {when: "{{ event.name == 'call.error' and error.status == 404 }}", then: {next: gone}}
        - {when: "{{ event.name == 'call.error' }}", then: {retry: {max_attempts: 3, initial_delay: 0.1}}}
        - when: "{{ event.name == 'call.done' and response.data.has_more == true }}"
          then:
            collect: {strategy: append, path: data.items, into: pages}
            retry: {max_attempts: 10, params: {page: "{{ response.data.page + 1 }}"}}
        - when: "{{ event.name == 'call.done' and response.data.has_more == false }}"
          then: {collect: {strategy: append, path: data.items, into: pages}, next: [{step: two}]}
    - {step: two, tool: {kind: noop, args: {all: "{{ start }}", same: "{{ pages }}"}}}
    - {step: gone, tool: {kind: noop}}
    """, {"start_task": paged(2, broken=2)})
    assert len([1 for name, _ in ran.calls if name == "start_task"]) == 4
    assert ran.args("two_task") == [{"all": [10, 11, 20, 21], "same": [10, 11, 20, 21]}]


def test_a_rule_before_a_retry_wins_over_it() -> None:
    workflow = """
    - step: start
      tool: {kind: http, url: "http://x"}
      case:
        - {when: "{{ event.name == 'call.error' and error.status == 404 }}", then: {next: two}}
        - {when: "{{ event.name == 'call.error' }}", then: {retry: {max_attempts: 3}}}
    - {step: two, tool: {kind: noop}}
    """
    ran = run(workflow, {"start_task": lambda _: failed("http", "gone", http={"status": 404})})
    assert (len(ran.calls), ran.steps) == (2, ["start", "two"])
    ran = run(workflow, {"start_task": lambda _: BAD})
    assert (len(ran.calls), ran.steps, ran.status) == (3, ["start"], "failed")


def test_every_call_knows_its_number() -> None:
    """FX §6.3: `_retry.index` and `_retry.count`, also where a policy only tries again."""
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: "{{ _retry.index }}"}}
      retry: [{when: "{{ response.n < 3 }}", then: {max_attempts: 9}}]
      vars: {calls: "{{ _retry.count }}"}
    """)
    assert (ran.args("start_task"), ran.ctx) == ([{"n": 1}, {"n": 2}, {"n": 3}], {"calls": 3})


@pytest.mark.parametrize(("written", "code"), [
    ("retry: {max_tries: 3}", "DSL201"), ("retry: 5", "DSL203"), ("retry: [{then: {max_attempts: 2}}]", "DSL501"),
    ("retry: {retry_when: yes please}", "DSL602"), ("retry: {max_attempts: 0}", "DSL204"),
    ("retry: [{when: '{{ 1 }}', then: {collect: {into: 'a b'}}}]", "DSL204"),
    ("retry: [{when: '{{ 1 }}', then: {collect: {into: a, path: 'x y'}}}]", "DSL204"),
])  # fmt: skip
def test_what_a_retry_cannot_be_is_told(written: str, code: str) -> None:
    with pytest.raises(AssertionError, match=code):
        task_of(f"- {{step: start, tool: {{kind: noop}}, {written}}}", "start_task")


def test_a_case_beside_a_collecting_retry_reads_the_last_response() -> None:
    workflow = PAGES.replace("  next: two", """  case:
    - {when: "{{ event.name == 'call.done' and response.data.page == 3 }}", then: {next: two}}""")
    ran = run(workflow, {"start_task": paged(3)})
    assert ran.args("two_task") == [{"all": [10, 11, 20, 21, 30, 31]}]
    assert run(workflow, {"start_task": paged(2)}).steps == ["start"]


SINKS = pytest.mark.parametrize("sink", [
    "sink: SINK", "case: [{when: \"{{ event.name == 'call.done' }}\", then: {sink: SINK}}]"])


@SINKS
@pytest.mark.parametrize("written", [
    "{tool: {kind: http, url: 'http://x', retry: RETRY}, args: {n: 1}}", "{tool: http, url: 'http://x', retry: RETRY}"])
@pytest.mark.parametrize("policy", ["{max_attempts: 3}", "{max_attempts: 3, retry_on: [connection_error]}"])
@pytest.mark.parametrize(("fails", "status"), [(2, "completed"), (3, "failed")])
def test_a_sink_is_tried_again(sink: str, written: str, policy: str, fails: int, status: str) -> None:
    workflow = "- {step: start, tool: {kind: noop}, " + sink.replace("SINK", written).replace("RETRY", policy) + "}"
    bad = failed("connect", "busy", http={"status": None})
    label = "start_sink" if "case" not in sink else "start_case_1_sink"
    ran = run(workflow, {label: after(*[bad] * fails, page({}))})
    assert (ran.status, [name for name, _ in ran.calls].count(label)) == (status, 3)


@pytest.mark.parametrize(("retry", "message"), [
    ("{max_attempts: 0}", "max_attempts must be a whole number from 1 to 1000"),
    ("{max_attempts: '{{ workload.n }}'}", "max_attempts must be a whole number from 1 to 1000"),
    ("{initial_delay: -1}", "initial_delay must not be below 0"),
    ("{max_attempts: 2000, retry_on: [timeout]}", "max_attempts must be a whole number from 1 to 1000"),
])
def test_a_wrong_bound_is_told_by_the_name_its_author_wrote(retry: str, message: str) -> None:
    for shape in ("{step: start, tool: {kind: noop}, retry: RETRY}", "{step: start, tool: {kind: noop, retry: RETRY}}"):
        if "retry_on" in retry and "noop}," in shape:
            continue
        source = head("t") + "workflow: [" + shape.replace("RETRY", retry) + "]\n"
        found = compile_playbook(source, kinds=registry.specs()).diagnostics
        assert [each.message for each in found if each.severity == "error"] == [message]


def test_what_is_lowered_twice_is_told_once() -> None:
    then = "{max_attempts: 3, next_call: {params: {p: 2}}, collect: {strategy: apend, path: data, into: x}}"
    policy = "{when: '{{ response.x }}', then: " + then + "}"
    source = head("t") + "workflow: [{step: start, tool: {kind: http, url: 'http://x'}, retry: [" + policy + "]}]\n"
    assert [each.code for each in compile_playbook(source, kinds=registry.specs()).diagnostics] == ["DSL204"]


def test_a_keychain_in_a_rule_of_a_case_is_told_once_and_as_written() -> None:
    source = head("t") + """keychain: [{name: x, kind: secret}]
workflow:
  - step: start
    tool: {kind: noop}
    sink: {tool: noop}
    case: [{when: "{{ keychain.x.token == 'a' }}", then: {next: b}}]
  - {step: b, tool: {kind: noop}}
"""
    (found,) = compile_playbook(source, kinds=registry.specs()).diagnostics
    assert (found.code, "keychain.x.token == 'a'" in found.message) == ("DSL603", True)


@pytest.mark.parametrize(("message", "tries"), [("a Timeout", 2), ("refused", 1)])
def test_the_error_of_a_retry_is_a_text_with_its_methods(message: str, tries: int) -> None:
    """FS §7.3."""
    when = "{{ 'timeout' in error.lower() }}"
    workflow = f'- {{step: start, tool: {{kind: noop}}, retry: {{max_attempts: 2, retry_when: "{when}"}}}}'
    ran = run(workflow, {"start_task": lambda _keys: failed("python", message)})
    assert (len(ran.calls), ran.error["message"]) == (tries, message)
    assert run(workflow, {"start_task": lambda _keys: ok(1)}).status == "completed"
