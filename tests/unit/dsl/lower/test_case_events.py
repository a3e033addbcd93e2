"""The events of a step: which rules of `case` act on each, what its sinks see, and what `vars` of a loop are."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran, answer, run


def with_outcome(outcome: Outcome, workflow: str) -> Ran:
    return run(workflow, {"start_task": lambda _keys: outcome})


BOTH = """
- step: start
  tool: {kind: noop}
  case:
    - {when: "{{ event.name == 'step.exit' }}", then: {sink: {tool: noop, args: {of: exit}}, next: left}}
    - {when: "{{ event.name == 'call.done' }}", then: {sink: {tool: noop, args: {of: "{{ result.n }}"}}CALL}}
    - {when: "{{ event.name == 'call.error' }}", then: {sink: {tool: noop, args: {of: "{{ error.kind }}"}}CALL}}
    - {when: "{{ event.name == 'call.done' }}", then: {set: {never: 1}, next: end}}
  next: end
- {step: left, tool: {kind: noop}}
- {step: right, tool: {kind: noop}}
- {step: end}
"""


@pytest.mark.parametrize("outcome", [ok({"n": "call"}), failed("call", "no")])
@pytest.mark.parametrize(("leads", "last"), [("", "left"), (", next: right", "right")])
def test_the_first_rule_of_each_event_acts_and_the_next_of_the_call_stands(
    outcome: Outcome, leads: str, last: str
) -> None:
    ran = with_outcome(outcome, BOTH.replace("CALL", leads))
    stored = [keys["args"]["of"] for name, keys in ran.calls if "sink" in name]
    assert (stored, ran.steps) == (["call", "exit"], ["start", last])
    assert (ran.status, "never" in ran.ctx) == ("completed", False)


def test_a_rule_that_matches_both_events_acts_once() -> None:
    ran = with_outcome(ok({"n": 1}), """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ event.name == 'call.done' and result.n == 2 }}", then: {next: two}}
        - {when: "{{ result.n == 1 }}", then: {sink: {tool: noop, args: {n: 1}}}}
        - {when: "{{ event.name == 'step.exit' }}", then: {next: two}}
      next: rest
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """)
    assert (ran.args("start_case_2_sink"), ran.steps) == ([{"n": 1}], ["start", "rest"])


def test_else_is_for_what_matched_no_event() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ event.name == 'call.done' and result.n == 1 }}", then: {SET}}
        - {when: "{{ event.name == 'step.exit' and result.n == 2 }}", then: {next: two}}
        - else: {then: {next: rest}}
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """
    for then in ("set: {seen: 1}", ""):
        found = [with_outcome(ok({"n": n}), workflow.replace("SET", then)).steps for n in (1, 2, 3)]
        assert found == [["start"], ["start", "two"], ["start", "rest"]]


def test_a_rule_on_exit_that_puts_the_result_somewhere_is_about_successes() -> None:
    """What it does cannot be done without one; a default makes it one for failures too."""
    workflow = """
    - step: start
      tool: {kind: noop}
      case: [{when: "{{ event.name == 'step.exit' }}", then: {set: {n: "{{ result.n DEFAULT }}"}, next: two}}]
    - {step: two, tool: {kind: noop}}
    """
    lost = with_outcome(failed("x", "no"), workflow.replace("DEFAULT", ""))
    assert (lost.status, lost.error["message"], lost.steps) == ("failed", "no", ["start"])
    kept = with_outcome(failed("x", "no"), workflow.replace("DEFAULT", "| default(0)"))
    assert (kept.status, kept.ctx["n"], kept.steps) == ("completed", 0, ["start", "two"])


def test_it_is_known_where_a_step_leads_before_it_stores() -> None:
    """FS §3.4: routing is the sixth, the sink the seventh."""
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 1}}
      case: [{when: "{{ event.name == 'step.exit' and result.n == 1 }}", then: {next: two}}]
      sink: {tool: noop, args: {n: "{{ result.n }}", led: "{{ ctx.start_rule }}"}}
    - {step: two, tool: {kind: noop}}
    """)
    assert (ran.args("start_sink"), ran.steps) == ([{"n": 1, "led": 1}], ["start", "two"])


@pytest.mark.parametrize(
    "where", ["sink: {tool: noop}", "case: [{when: '{{ result.n }}', then: {sink: {tool: noop}}},"])
def test_no_rule_takes_the_failure_of_a_sink_for_that_of_the_call(where: str) -> None:
    """Its step has been routed by then; `step.failed` names the failure of the whole step."""
    workflow = """
    - step: start
      tool: {kind: noop}
      WHERE
        {when: "{{ event.name == 'EVENT' }}", then: {next: two}}]
      next: rest
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """.replace("WHERE", where if "case" in where else f"{where}\n      case: [")
    sinks = dict.fromkeys(("start_sink", "start_case_1_sink"), lambda _: failed("pg", "full"))
    found = {}
    for event in ("call.error", "step.exit", "step.failed"):
        ran = run(workflow.replace("EVENT", event), {"start_task": answer({"n": 1}), **sinks})
        found[event] = (ran.status, ran.error.get("message"), ran.steps)
    lost = ("failed", "full", ["start"])
    assert found == {"call.error": lost, "step.exit": lost, "step.failed": ("completed", None, ["start", "two"])}


def test_a_failed_sink_does_not_take_the_place_of_the_failure_before_it() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop}
      case: [{when: "{{ event.name == 'call.error' }}", then: {sink: {tool: noop}, next: two}}]
    - {step: two, tool: {kind: noop}}
    """, {"start_task": lambda _: failed("x", "no"), "start_case_1_sink": lambda _: failed("pg", "full")})
    assert (ran.status, ran.error["message"], ran.steps) == ("failed", "no", ["start"])
    assert (ran.error["task"], ran.error["sink"], ran.error["sink_error"]["message"]) == (
        "start_task", "start_case_1_sink", "full")


def test_two_sinks_of_one_rule_both_see_the_result() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 2}}
      case:
        - when: "{{ event.name == 'step.exit' }}"
          then: {sink: [{tool: noop, args: {a: "{{ result.n }}"}}, {tool: noop, args: {b: "{{ this.n }}"}}]}
    """)
    assert [keys["args"] for name, keys in ran.calls if "sink" in name] == [{"a": 2}, {"b": 2}]


def test_a_rule_on_exit_may_try_again_unless_another_acts_on_the_call() -> None:
    answers = iter([ok({"more": True}), ok({"more": True}), ok({"more": False})])
    workflow = """
    - step: start
      tool: {kind: noop}
      case:
        - {when: "{{ event.name == 'step.exit' and result.more }}", then: {retry: {max_attempts: 5}}}
        - {when: "{{ event.name == 'EVENT' }}", then: {set: {seen: "{{ result.more }}"}, next: two}}
    - {step: two, tool: {kind: noop}}
    """
    ran = run(workflow.replace("EVENT", "step.exit"), {"start_task": lambda _: next(answers)})
    assert (ran.ctx["seen"], ran.steps, len(ran.args("start_task"))) == (False, ["start", "two"], 3)
    with pytest.raises(AssertionError, match="in the rule with retry"):
        run(workflow.replace("EVENT", "call.done"))


def test_the_args_of_an_http_sink_without_a_body_are_its_body() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 2}}
      sink:
        - {tool: {kind: http, url: "http://x/a"}, args: {n: "{{ result.n }}"}}
        - {tool: {kind: http, url: "http://x/b", method: PUT}, args: {n: "{{ result.n }}"}}
    """)
    sent = [keys for name, keys in ran.calls if "sink" in name]
    assert sent == [{"url": "http://x/a", "method": "POST", "body": {"n": 2}},
                    {"url": "http://x/b", "method": "PUT", "body": {"n": 2}}]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_vars_of_a_loop_step_are_those_of_its_result(mode: str) -> None:
    """FX §8.1: after completion, once."""
    ran = run("""
    - step: start
      loop: {in: [1, 2, 3], iterator: n, mode: MODE}
      tool: {kind: noop, args: {n: "{{ n * 2 }}"}}
      vars: {total: "{{ result | length }}", first: "{{ result[0].n }}", last: "{{ start.results[2].n }}"}
      case: [{when: "{{ event.name == 'step.exit' and vars.total == 3 }}", then: {next: two}}]
    - {step: two, tool: {kind: noop, args: {seen: "{{ vars.total }} {{ vars.first }} {{ vars.last }}"}}}
    """.replace("MODE", mode))
    assert (ran.ctx, ran.args("two_task")) == ({"total": 3, "first": 2, "last": 6}, [{"seen": "3 2 6"}])


def test_vars_of_a_loop_step_that_cannot_be_taken_fail_it() -> None:
    ran = run("""
    - step: start
      loop: {in: [1], iterator: n}
      tool: {kind: noop, args: {n: 1}}
      vars: {x: "{{ result[7].n }}"}
      case: [{when: "{{ event.name == 'call.error' }}", then: {next: two}}]
      next: end
    - {step: two, tool: {kind: noop, args: {}}}
    - {step: end}
    """)
    assert (ran.steps, ran.ctx) == (["start", "two"], {})


@pytest.mark.parametrize("workflow", [
    "- {step: start, tool: {kind: noop}, sink: {tool: noop, args: {n: 1}}}",
    "- {step: start, tool: {kind: noop}, case: [{when: \"{{ event.name == 'step.exit' }}\", "
    "then: {sink: {tool: noop, args: {n: 1}}}}]}",
])
def test_the_error_of_a_failed_sink_names_it(workflow: str) -> None:
    labels = ("start_sink", "start_case_1_sink")
    ran = run(workflow, dict.fromkeys(labels, lambda _keys: failed("postgres", "no table")))
    assert (ran.status, ran.error["kind"], ran.error["sink"] in labels) == ("failed", "postgres", True)


@pytest.mark.parametrize("test", [
    "'error' in event.name", "event.name.startswith('call') and error", "event.name.endswith('.error')",
    "event.error", "event.error is not none", "outcome.status == 'error'", "output.error",
    "event.name | upper == 'CALL.ERROR'",
])
@pytest.mark.parametrize("act", ["set: {x: 1}, ", ""])
def test_a_rule_about_a_failure_acts_and_leads_on_however_it_asks(act: str, test: str) -> None:
    workflow = f"""
    - step: start
      tool: {{kind: noop}}
      case: [{{when: "{{{{ {test} }}}}", then: {{{act}next: [{{step: b}}]}}}}]
    - {{step: b, tool: {{kind: noop}}}}
    """
    ran = run(workflow, {"start_task": lambda _keys: failed("python", "boom")})
    assert (ran.status, ran.steps, ran.ctx.get("x")) == ("completed", ["start", "b"], 1 if act else None)
    fine = run(workflow, {"start_task": lambda _keys: ok(1)})
    assert (fine.status, fine.steps, fine.ctx.get("x")) == ("completed", ["start"], None)
    assert diagnosed(workflow) == []


SENDS = """
- step: start
  tool: {kind: noop}
  case:
    - {when: "{{ event.name == 'call.done' }}", then: {ACTcall: {step: side, args: {x: "{{ result.a }}"}}}}
    - {when: "{{ event.name == 'step.exit' and response is defined }}", then: {next: [{step: b}]}}
  REST
- {step: b, tool: {kind: noop}}
- {step: c, tool: {kind: noop}}
- {step: side, tool: {kind: noop, args: {x: "{{ x }}"}}}
"""


def own(ran: Ran) -> list[str]:
    return sorted(step for step in ran.steps if step not in ran.plan.origins)


def diagnosed(workflow: str) -> list[str]:
    found = compile_playbook(head("t") + "workflow:" + workflow, kinds=registry.specs())
    return [str(each) for each in found.diagnostics]


@pytest.mark.parametrize("act", ["", "set: {n: 1}, "])
@pytest.mark.parametrize("rest", ["", "next: c"])
def test_a_call_leaves_it_to_the_exit_where_the_step_leads(act: str, rest: str) -> None:
    workflow = SENDS.replace("ACT", act).replace("REST", rest)
    ran = run(workflow, {"start_task": answer({"a": 1})})
    assert (own(ran), ran.args("side_task")) == (["b", "side", "start"], [{"x": 1}])
    assert ran.ctx.get("n") == (1 if act else None)
    broken = with_outcome(failed("x", "no"), workflow)
    assert (broken.status, broken.steps) == ("failed", ["start"])


@pytest.mark.parametrize("act", ["", "set: {n: 1}, "])
@pytest.mark.parametrize(("rule", "outcome", "steps"), [
    ("step.exit' and response is not defined", ok({"a": 1}), ["c", "side", "start"]),
    ("step.done", ok({"a": 1}), ["b", "side", "start"]), ("call.error", ok({"a": 1}), ["c", "side", "start"]),
    ("call.error", failed("x", "no"), ["b", "start"]),
])
def test_a_call_and_the_next_of_the_step(act: str, rule: str, outcome: Outcome, steps: list[str]) -> None:
    when = rule if "'" in rule else f"{rule}'"
    workflow = SENDS.replace("ACT", act).replace("REST", "next: c").replace("step.exit' and response is defined", when)
    assert own(with_outcome(outcome, workflow)) == steps


@pytest.mark.parametrize("act", ["", "set: {n: 1}, "])
@pytest.mark.parametrize("rest", ["", "next: c"])
def test_both_events_may_send_a_token(act: str, rest: str) -> None:
    workflow = SENDS.replace("ACT", act).replace("REST", rest).replace("next: [{step: b}]", "call: {step: b}")
    ran = run(workflow, {"start_task": answer({"a": 1})})
    assert own(ran) == ["b", *(["c"] if rest else []), "side", "start"]
    assert diagnosed(workflow if rest else workflow.replace("- {step: c, tool: {kind: noop}}", "")) == []


@pytest.mark.parametrize("act", ["", "set: {n: 1}, "])
def test_a_token_sent_on_the_exit_stands_beside_the_next_of_the_call(act: str) -> None:
    workflow = SENDS.replace("REST", "next: c").replace("next: [{step: b}]", f"{act}call: {{step: side}}").replace(
        'ACTcall: {step: side, args: {x: "{{ result.a }}"}}', "next: b").replace('"{{ x }}"', "1")
    assert own(run(workflow, {"start_task": answer({"a": 1})})) == ["b", "side", "start"]


@pytest.mark.parametrize("act", ["", "set: {n: 1}, "])
def test_a_call_after_a_failure_is_where_it_leads(act: str) -> None:
    workflow = SENDS.replace("REST", "next: c").replace("ACT", act).replace("call.done", "call.error").replace(
        "result.a", "error.kind")
    broken = with_outcome(failed("x", "no"), workflow)
    assert (broken.steps, broken.args("side_task")) == (["start", "side"], [{"x": "x"}])
    assert own(run(workflow, {"start_task": answer({"a": 1})})) == ["b", "start"]


def test_no_arc_of_a_call_is_said_to_be_shadowed() -> None:
    workflow = SENDS.replace("ACT", "").replace("REST", "next: c").replace("- {step: b, tool: {kind: noop}}", "")
    rules = workflow.splitlines()
    alone = "\n".join(line for line in rules if "step.exit" not in line)
    assert diagnosed(alone) == []
    assert own(run(alone, {"start_task": answer({"a": 1})})) == ["c", "side", "start"]
