"""`case` and `sink`: what is done on the worker, and where the rules lead."""

from typing import Any

import pytest

from shared.events.outcome import Outcome, failed, ok
from tests.unit.dsl.lower.support import Ran, answer, page, run

CASE = """
- step: start
  tool: {kind: http, url: "http://x"}
  vars: {a: "{{ result.a }}"}
  case:
    - when: "{{ event.name == 'call.done' and response.status_code == 200 and vars.a == 1 }}"
      then:
        sink: {tool: {kind: postgres, table: good}, args: {a: "{{ result.a }}", code: "{{ this.status_code }}"}}
        set: {seen: "{{ result.a }}"}
        next: [{step: one, args: {v: "{{ response.data.a }}"}}, {step: two}]
    - when: "{{ event.name == 'call.error' }}"
      then:
        sink: {tool: {kind: postgres, table: bad}, args: {why: "{{ error.message }}", code: "{{ error.status }}"}}
        next: [{step: three, args: {code: "{{ error.status }}"}}]
  next: rest
- {step: one, tool: {kind: noop, args: {v: "{{ args.v }}"}}}
- {step: two, tool: {kind: noop}}
- {step: three, tool: {kind: noop, args: {code: "{{ args.code }}"}}}
- {step: rest, tool: {kind: noop}}
"""


def with_outcome(outcome: Outcome, workflow: str = CASE) -> Ran:
    return run(workflow, {"start_task": lambda _keys: outcome})


def test_the_first_rule_that_matches_stores_sets_and_leads_to_all_its_steps() -> None:
    ran = with_outcome(page({"a": 1}))
    assert ran.args("start_case_1_sink") == [{"a": 1, "code": 200}]
    assert (ran.ctx, ran.steps) == (
        {"a": 1, "seen": 1, "start_rule": 1}, ["start", "start_case_1", "one", "two"])
    assert ran.args("one_task") == [{"v": 1}]
    assert ran.result("start")["data"] == {"a": 1}


def test_a_rule_on_an_error_stores_it_and_leads_on() -> None:
    ran = with_outcome(failed("http", "gone", http={"status": 404}))
    assert ran.args("start_case_2_sink") == [{"why": "gone", "code": 404}]
    assert (ran.steps, ran.status) == (["start", "three"], "completed")
    assert ran.args("three_task") == [{"code": 404}]


def test_without_a_match_next_is_the_fallback() -> None:
    ran = with_outcome(page({"a": 2}))
    assert (ran.steps, [name for name, _ in ran.calls]) == (["start", "rest"], ["start_task", "rest_task"])


def test_an_error_that_a_rule_stores_but_leads_nowhere_is_the_one_of_the_execution() -> None:
    ran = with_outcome(failed("http", "gone", http={"status": 404}), """
    - step: start
      tool: {kind: http, url: "http://x"}
      case:
        - when: "{{ event.name == 'call.error' }}"
          then: {sink: {tool: {kind: noop}, args: {e: "{{ error.kind }}"}}}
      next: rest
    - {step: rest, tool: {kind: noop}}
    """)
    assert ran.args("start_case_1_sink") == [{"e": "http"}]
    assert (ran.status, ran.error["message"], ran.error["task"]) == ("failed", "gone", "start_task")


@pytest.mark.parametrize(
    ("when", "outcome", "matches"),
    [
        ("event.name == 'step.exit'", ok({}), True),
        ("event.name == 'step.exit'", failed("x", "no"), True),
        ("event.name == 'step.finished'", failed("x", "no"), True),
        ("event.name == 'step.exit' and response is defined", failed("x", "no"), False),
        ("event.name == 'step.done'", failed("x", "no"), False),
        ("event.name == 'step.failed'", failed("x", "no"), True),
        ("event.name == 'call.done'", failed("x", "no"), False),
        ("event.name == 'step.exit' and error is defined", failed("x", "no"), True),
        ("event.name == 'step.exit' and error is defined", ok({}), False),
        ("event.name == 'step.exit' and response is defined", ok({}), True),
        ("event.name == 'step.exit' and (response is not defined or response.n != 1)", failed("x", "no"), True),
        ("event.name in ['call.done', 'call.error']", failed("x", "no"), True),
        ("event.name in ['call.done', 'call.error']", ok({}), True),
        ("event.name != 'call.done'", failed("x", "no"), True),
        ("event.name != 'call.error'", ok({}), True),
        ("event.name not in ['call.done']", ok({}), True),
        ("event.name not in ['call.done', 'step.exit']", ok({}), False),
        ("'call.done' == event.name", ok({}), True),
        ("event.name == 'tool.processed'", ok({}), True),
        ("result.n == 1", ok({"n": 1}), True),
        ("result.n == 1", ok({"n": 2}), False),
        ("true", failed("x", "no"), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("then", ["next: two", "sink: {tool: {kind: noop}}, next: two"])
def test_conditions_mean_the_same_on_the_worker_and_in_arcs(
    when: str, outcome: Outcome, matches: bool, then: str
) -> None:
    ran = with_outcome(outcome, f"""
    - step: start
      tool: {{kind: noop}}
      case:
        - when: "{{{{ {when} }}}}"
          then: {{{then}}}
    - {{step: two, tool: {{kind: noop}}}}
    """)
    assert ("two" in ran.steps) == matches
    if "sink" in then:
        assert ("start_case_1_sink" in [name for name, _ in ran.calls]) == matches
    assert ran.status == ("completed" if outcome.status == "ok" or matches else "failed")


def test_a_rule_that_only_stores_wins_over_later_rules_of_its_event_and_goes_to_next() -> None:
    """FX §7.1 and §11: the first match executes; without a next of its own the step's applies."""
    ran = with_outcome(ok({"n": 1}), """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ event.name == 'step.exit' }}", then: {sink: {tool: {kind: noop}, args: {n: "{{ result.n }}"}}}}
        - {when: "{{ event.name == 'step.exit' and result.n == 1 }}", then: {next: two}}
      next: rest
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """)
    assert (ran.steps, ran.args("start_case_1_sink")) == (["start", "rest"], [{"n": 1}])


def test_a_rule_that_only_leads_on_wins_over_a_later_one_that_stores() -> None:
    ran = with_outcome(ok({"n": 1}), """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ result.n == 1 }}", then: {next: two}}
        - {when: "{{ event.name == 'step.exit' }}", then: {sink: {tool: {kind: noop}}, next: rest}}
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """)
    assert (ran.steps, [name for name, _ in ran.calls]) == (["start", "two"], ["start_task", "two_task"])


def test_then_as_a_list_means_the_same() -> None:
    ran = with_outcome(ok({"n": 1}), """
    - step: start
      tool: {kind: noop}
      case: [{when: "{{ event.name == 'step.exit' }}", then: [{set: {n: "{{ result.n }}"}}, {next: [{step: two}]}]}]
    - {step: two, tool: {kind: noop}}
    """)
    assert (ran.steps, ran.ctx) == (["start", "two"], {"n": 1, "start_rule": 1})


def test_a_rule_on_enter_sets_before_the_tool_runs() -> None:
    ran = with_outcome(ok({}), """
    - step: start
      tool: {kind: noop, args: {seen: "{{ ctx.all }}"}}
      case: [{when: "{{ event.name == 'step.enter' }}", then: {set: {ctx: {all: []}}}}]
    """)
    assert (ran.args("start_task"), ran.ctx) == ([{"seen": []}], {"all": []})


def test_in_a_loop_rules_act_on_each_iteration_and_lead_on_at_the_end() -> None:
    """FX §5.4."""
    ran = run("""
    - step: start
      loop: {in: [1, 2, 3], iterator: n, mode: sequential}
      tool: {kind: noop, args: {n: "{{ n }}"}}
      case:
        - when: "{{ event.name == 'call.done' and response.n != 2 }}"
          then: {sink: {tool: {kind: noop}, args: {n: "{{ result.n }}"}}}
        - {when: "{{ event.name == 'loop.done' }}", then: {next: [{step: two}]}}
    - {step: two, tool: {kind: noop}}
    """)
    assert (ran.args("start_case_1_sink"), ran.steps) == ([{"n": 1}, {"n": 3}], ["start", "two"])


SINK = """
- step: start
  tool: {kind: noop}
  sink: {tool: {kind: postgres, auth: pg, table: t}, args: {n: "{{ result.n }}"}, when: "{{ result.n > 1 }}"}
  next: two
- {step: two, tool: {kind: noop, args: {n: "{{ start.n }}"}}}
"""


@pytest.mark.parametrize(("n", "stored"), [(2, [{"n": 2}]), (1, [])])
def test_a_sink_stores_after_success_unless_its_when_says_no(n: int, stored: list[Any]) -> None:
    ran = run(SINK, {"start_task": answer({"n": n})})
    assert (ran.args("start_sink"), ran.args("two_task")) == (stored, [{"n": n}])


def test_a_failed_step_stores_nothing_and_a_failed_sink_fails_the_step() -> None:
    assert run(SINK, {"start_task": lambda _: failed("x", "no")}).args("start_sink") == []
    ran = run(SINK, {"start_task": answer({"n": 2}), "start_sink": lambda _: failed("pg", "full")})
    assert (ran.status, ran.error["task"]) == ("failed", "start_sink")


def test_a_case_and_a_sink_on_one_step_both_store_the_result() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop}
      case: [{when: "{{ event.name == 'step.exit' }}", then: {sink: {tool: {kind: noop}, args: {a: "{{ result.n }}"}}}}]
      sink: {tool: noop, args: {b: "{{ result.n }}"}}
    """, {"start_task": answer({"n": 4})})
    assert (ran.args("start_case_1_sink"), ran.args("start_sink")) == ([{"a": 4}], [{"b": 4}])
    assert ran.result("start") == {"n": 4}


def test_errors_of_earlier_tasks_and_of_tasks_with_rules_reach_the_case() -> None:
    workflow = """
    - step: start
      tool:
        - {name: one, kind: noop}
        - name: two
          kind: noop
          spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: fail}}]}}
      case:
        - when: "{{ event.name == 'call.error' }}"
          then: {sink: {tool: {kind: noop}, args: {why: "{{ error.message }}", who: "{{ error.task }}"}}, next: end}
    - step: end
    """
    for task in ("one", "two"):
        ran = run(workflow, {task: lambda _: failed("x", "no")})
        assert ran.args("start_case_1_sink") == [{"why": "no", "who": task}]
        assert (ran.steps, ran.status) == (["start", "end"], "completed")


def test_several_sinks_each_with_its_own_test() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 2}}
      sink:
        - {tool: noop, args: {first: "{{ result.n }}"}}
        - {tool: noop, args: {none: 1}, when: "{{ result.n == 1 }}"}
        - {tool: noop, args: {last: "{{ response.n }}"}, when: "{{ result.n == 2 }}"}
    """)
    stored = [keys["args"] for name, keys in ran.calls if "sink" in name]
    assert (stored, ran.result("start")) == ([{"first": 2}, {"last": 2}], {"n": 2})


def test_a_rule_that_changes_what_it_reads_still_leads_where_it_says() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 1}}
      case:
        - when: "{{ (vars.count | default(0)) < 2 }}"
          then: {set: {count: "{{ (vars.count | default(0)) + 1 }}"}, next: start}
        - {when: "{{ event.name == 'step.exit' }}", then: {next: two}}
      next: never
    - {step: two, tool: {kind: noop}}
    - {step: never, tool: {kind: noop}}
    """)
    assert (ran.steps, ran.ctx["count"]) == (["start", "start", "start", "two"], 2)


def test_an_error_is_routed_although_the_worker_decides_about_successes() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ event.name == 'call.done' }}", then: {set: {ok: true}, next: one}}
        - {when: "{{ event.name == 'call.error' and error.kind == 'x' }}", then: {set: {ok: false}, next: two}}
    - {step: one, tool: {kind: noop}}
    - {step: two, tool: {kind: noop}}
    """
    good, bad = with_outcome(ok({}), workflow), with_outcome(failed("x", "no"), workflow)
    assert (good.steps, good.ctx["ok"]) == (["start", "one"], True)
    assert (bad.steps, bad.ctx["ok"], bad.status) == (["start", "two"], False, "completed")


def test_collect_without_repetition_gathers_over_the_runs_of_the_step() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: "{{ (vars.all | default([])) | length }}"}}
      case:
        - {when: "{{ result.n < 2 }}", then: {collect: {from: result.n, into: all, mode: append}, next: start}}
        - {when: "{{ result.n == 2 }}", then: {next: two}}
    - {step: two, tool: {kind: noop, args: {all: "{{ vars.all }}"}}}
    """)
    assert ran.args("two_task") == [{"all": [0, 1]}]


def test_a_rule_can_log_and_name_the_result_of_its_step() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 3}}
      vars: {m: 1}
      case:
        - when: "{{ event.name == 'step.exit' }}"
          then: {log: "n is {{ result.n }}", result: {from: result.n}, next: two}
    - {step: two, tool: {kind: noop, args: {got: "{{ start }}"}}}
    """)
    assert (ran.args("start_case_1_sink"), ran.args("two_task")) == ([{"log": "n is 3"}], [{"got": 3}])


@pytest.mark.parametrize(("onward", "wanted"), [
    ("next: three", ["start", "two", "three"]),
    ("case: [{when: '{{ result.n }}', then: [{call: {step: two, args: {m: '{{ result.n }}'}}}, {next: three}]}]",
     ["start", "two", "three"]),
    ("", ["start", "two"]),
])
def test_a_rule_that_calls_a_step_sends_a_token_there_and_goes_on(onward: str, wanted: list[str]) -> None:
    call = "case: [{when: '{{ result.n }}', then: {call: {step: two, args: {m: '{{ result.n }}'}}}}]"
    keys = onward if onward.startswith("case") else f"{call}, {onward}".removesuffix(", ")
    ran = run(f"""
    - {{step: start, tool: {{kind: noop, args: {{n: 3}}}}, {keys}}}
    - {{step: two, tool: {{kind: noop, args: {{got: "{{{{ args.m }}}}"}}}}}}
    - {{step: three, tool: {{kind: noop}}}}
    """)
    assert [step for step in ran.steps if step not in ran.plan.origins] == wanted
    assert ran.args("two_task") == [{"got": 3}]


def test_a_call_beside_a_router_is_told() -> None:
    with pytest.raises(AssertionError, match="add next: "):
        run("""
        - {step: start, tool: {kind: noop}, case: [{when: "{{ 1 }}", then: {call: {step: two}}}],
           next: {arcs: [{step: two}]}}
        - {step: two, tool: {kind: noop}}
        """)


@pytest.mark.parametrize("name", ["status", "status_code", "code"])
def test_the_code_of_an_http_error_has_many_names(name: str) -> None:
    ran = run(f"""
    - step: start
      tool: {{kind: http, url: "http://localhost/"}}
      case:
        - {{when: "{{{{ error.{name} == 503 }}}}", then: {{set: {{seen: "{{{{ error.{name} }}}}"}}, next: two}}}}
    - {{step: two, tool: {{kind: noop, args: {{seen: "{{{{ ctx.seen }}}}"}}}}}}
    """, {"start_task": lambda _: failed("http", "busy", http={"status": 503})})
    assert ran.args("two_task") == [{"seen": 503}]


@pytest.mark.parametrize("kind", ["event", "event_log"])
def test_a_sink_to_the_event_log_only_records(kind: str) -> None:
    ran = run(f"""
    - step: start
      tool: {{kind: noop, args: {{n: 3}}}}
      case: [{{when: "{{{{ result.n }}}}", then: {{sink: {{tool: {kind}, args: "{{{{ response }}}}"}}}}}}]
    """)
    assert ran.args("start_case_1_sink") == [{"value": {"n": 3}}]


@pytest.mark.parametrize(("case", "code"), [
    ("[{then: {next: two}}]", "DSL501"), ("{when: 1}", "DSL203"), ("[{when: '{{ 1 }}', then: {nxt: two}}]", "DSL201"),
    ("[{when: '{{ 1 }}', then: {sink: {args: {}}}}]", "DSL202"),
    ("[{when: '{{ 1 }}', then: {next: nowhere}}]", "DSL403"),
    ("[{when: '{{ 1 }}', then: {call: two}}]", "DSL203"), ("[{when: '{{ 1 }}', then: two}]", "DSL501"),
    ("[{when: '{{ event.name == `step.enter` }}', then: {next: two}}]".replace("`", '"'), "DSL301"),
])  # fmt: skip
def test_what_a_case_cannot_be_is_told(case: str, code: str) -> None:
    with pytest.raises(AssertionError, match=code):
        run(f"- {{step: start, tool: {{kind: noop}}, case: {case}}}\n- {{step: two, tool: {{kind: noop}}}}")


def test_a_sink_may_name_its_backend_and_where_its_columns_come_from() -> None:
    ran = run("""
- step: start
  tool: {kind: noop, args: {n: 2}}
  case:
    - when: "{{ result.n > 1 }}"
      then: [{sink: {backend: postgres, auth: pg, table: t, from: {n: "{{ result.n }}"}}}]
""")
    assert ran.calls[-1] == ("start_case_1_sink", {"auth": "pg", "table": "t", "args": {"n": 2}})
    kinds = {task.name: task.kind for task in ran.plan.steps["start"].tasks}
    assert kinds["start_case_1_sink"] == "postgres"


def test_a_text_that_lowering_changed_is_still_called_text() -> None:
    with pytest.raises(AssertionError, match=r"tool\.args must be a mapping, not text"):
        run("""
- step: start
  tool: {kind: noop}
  sink: {backend: duckdb, command: SELECT 1, from: "{{ result }}"}
""")
