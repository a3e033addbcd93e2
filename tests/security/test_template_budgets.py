"""Templates cost what they do: nothing is free, nothing pays back, and a decision has one budget for all of them."""

import json
import time
from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.documents.header import PlaybookRef
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.dsl.model.plan import Task
from shared.dsl.templates.budget import Budget
from shared.dsl.templates.evaluate import evaluate, truth
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation.triggers import Arrived, Broken, react
from shared.engine.pipeline.call import rendered
from shared.engine.routing import decide as routing
from shared.engine.scheduling.limits import MAX_KEY_WORK
from shared.errors import OverLimit, TemplateError
from shared.events import model as ev
from shared.events.outcome import ok
from shared.events.request import Request
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.engine.support import Driver, plan_of

SLOW_S = 0.5  # ten times what a budget is worth: other processes may hold the CPU
S = "a" * 900_000


def _refused(template: str, scope: dict[str, Any]) -> TemplateError:
    began = time.process_time()
    with pytest.raises(TemplateError) as caught:
        evaluate(template, scope)
    assert time.process_time() - began < SLOW_S
    return caught.value


def test_fields_of_a_format_are_charged_by_what_they_read() -> None:
    error = _refused("{{ ('{0!r:.0}' * 2000).format(s) }}", {"s": S})
    assert error.kind == "limit"
    assert "units" in str(error)


@pytest.mark.parametrize("test", ["lower", "upper", "even", "odd", "divisibleby(3)", "eq(t)", "in([t])"])
def test_a_test_is_charged_by_what_it_reads(test: str) -> None:
    template = "{% for i in range(20000) %}{% if s is " + test + " %}{% endif %}{% endfor %}"
    _refused(template, {"s": S, "t": S[:-1] + "b"})


@pytest.mark.parametrize(
    "expression",
    [
        "[[1]] | map('#steps', -10**15) | list", "[1] | map('#bind') | list", "[1] | map('#name') | list",
        "[1] | map('#doubled') | list", "[1] | select('#steps') | list", "[1] | reject('#steps', -1) | list",
        "[1] | selectattr('a', '#steps') | list", "[1] | rejectattr('a', '#steps') | list",
        "[{'a': 1}] | map(attribute='#steps') | list | tojson | int('x')",
        "1 | attr('#steps')",
    ],
)
def test_internal_names_are_out_of_reach(expression: str) -> None:
    with pytest.raises(TemplateError):
        evaluate("{{ " + expression + " }}", {})


def test_no_template_gets_work_back() -> None:
    burn = "{% for i in range(100) %}{% set b = (s | upper) %}{% endfor %}"
    for refund in ("s.center(-10**15)", "s[10**15:-10**15]", "s * -10**15", "[1] | batch(1, -10**15) | list",
                   "s | center(-10**15)", "s | truncate(-10**15, leeway=0, end='')", "range(10**15, 0) | list"):
        _refused("{% set a = " + refund + " %}" + burn, {"s": S})


def _book(when: str, arcs: int) -> Any:
    arms = "".join(f'      - {{step: end, when: "{when}"}}\n' for _ in range(arcs))
    source = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: arcs, path: arcs}}
workload: {{s: ""}}
workflow:
  - step: start
    next:
      spec: {{mode: inclusive}}
      arcs:
{arms}  - step: end
"""
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan


def test_the_arcs_of_a_decision_share_one_budget() -> None:
    when = "{{ (range(90000) | map('abs') | list | length) < 0 }}"
    plan = _book(when, 24)
    began = time.process_time()
    events = routing.start("e1", Request("arcs", "", {}), "r", plan, 0.0)
    assert time.process_time() - began < SLOW_S
    ended = events[-1]
    assert isinstance(ended, ev.PlaybookProcessed)
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error["kind"] == "limit"
    assert "next of step start" in ended.error["message"]
    assert "units" in ended.error["message"]


HOSTILE = "{{ ('{0!r:.0}' * 2000).format('ab' * 400000) }}"
STEP = "workflow:\n  - step: start\n    tool: {kind: noop}\n"
PLACES = {
    "workload": f"workload: {{x: HOSTILE}}\n{STEP}",
    "limits.key": f"executor: {{spec: {{policy: {{limits: {{key: HOSTILE, max: 1}}}}}}}}\n{STEP}",
    "admit of step start": STEP + "    spec: {policy: {admit: {rules: [{when: HOSTILE, then: {allow: true}}]}}}\n",
    "next of step start": "workflow:\n  - step: start\n    next: {arcs: [{step: end, args: {x: HOSTILE}}]}\n"
                          "  - step: end\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_failure_names_its_place_and_is_a_limit(place: str) -> None:
    text = PLACES[place].replace("HOSTILE", json.dumps(HOSTILE))
    source = head("p", "p") + text
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    ended = routing.start("e1", Request("p", "", {}), "r", compiled.plan, 0.0)[-1]
    assert isinstance(ended, ev.PlaybookProcessed)
    assert ended.error is not None
    assert ended.error["kind"] == "limit"
    assert ended.error["message"].startswith(place)


LOOP = "- step: start\n  tool: {kind: noop}\n  loop: {in: IN, iterator: item, spec: {mode: parallel, MORE}}\n"
RULED = "- step: start\n  tool: {kind: noop, spec: {policy: {rules: [RULE]}}}\n"
RUNNING = {
    "arc when": "- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: end, when: HOSTILE}]}\n- step: end\n",
    "arc args after a tool": "- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: end, args: {x: HOSTILE}}]}\n"
                             "- step: end\n",
    "admit of a later step": "- step: start\n  next: {arcs: [{step: end}]}\n- step: end\n  tool: {kind: noop}\n"
                             "  spec: {policy: {admit: {rules: [{when: HOSTILE, then: {allow: true}}]}}}\n",
    "loop.in": LOOP.replace("IN", "HOSTILE").replace("MORE", "max_in_flight: 2"),
    "max_in_flight": LOOP.replace("IN", "[1, 2]").replace("MORE", "max_in_flight: HOSTILE"),
    "stop_when": LOOP.replace("IN", "[1, 2]").replace("MORE", "max_in_flight: 1, stop_when: HOSTILE"),
    "limits.key of a step": "- step: start\n  tool: {kind: noop}\n  spec: {policy: {limits: {key: HOSTILE, max: 1}}}\n",
    "limits.key of an iteration": LOOP.replace("IN", "[1, 2]").replace("MORE", "max_in_flight: 1")
                                  + "  spec: {policy: {limits: {key: HOSTILE, max: 1}}}\n",
    "when of a rule": RULED.replace("RULE", "{when: HOSTILE, then: {do: continue}}"),
    "set_ctx": RULED.replace("RULE", "{else: {then: {do: continue, set_ctx: {x: HOSTILE}}}}"),
    "set_iter": RULED.replace("RULE", "{else: {then: {do: continue, set_iter: {x: HOSTILE}}}}"),
}


@pytest.mark.parametrize("place", RUNNING)
def test_a_run_that_meets_it_fails_by_the_limit_and_in_no_time(place: str) -> None:
    plan = plan_of(RUNNING[place].replace("HOSTILE", json.dumps(HOSTILE)))
    began = time.process_time()
    run = Driver(plan, lambda *_: ok(None)).run()
    assert time.process_time() - began < SLOW_S
    ended = run.find(ev.PlaybookProcessed)[-1]
    assert ended.status == "failed"
    assert "limit" in json.dumps(ended.error)
    assert "too much work" in json.dumps(ended.error)


CONFIGS = {"url": ("http", {"url": HOSTILE}), "command": ("duckdb", {"command": f"select {HOSTILE}"}),
           "cmds": ("shell", {"cmds": [f"echo {HOSTILE}"]}), "args": ("python", {"args": {"x": HOSTILE}})}


@pytest.mark.parametrize("key", CONFIGS)
def test_a_task_is_not_called_with_it(key: str) -> None:
    kind, config = CONFIGS[key]
    began = time.process_time()
    with pytest.raises(OverLimit, match="too much work"):
        rendered(Task("t", kind, config), registry.specs()[kind].keys, {})
    assert time.process_time() - began < SLOW_S


def test_a_schedule_has_one_budget() -> None:
    with pytest.raises(OverLimit, match="too much work"):
        automation_schedules.request(Schedule("s", PlaybookRef("p", payload={"x": HOSTILE}), every=60), 60)


def test_the_key_of_a_limit_has_a_small_budget_of_its_own() -> None:
    """A service that takes over makes the keys of all that waits at once, outside of any decision."""
    half = "{{ 'a' * 400000 ~ item }}"
    loop = LOOP.replace("IN", '"{{ range(40) | list }}"').replace("MORE", "max_in_flight: 40")
    plan = plan_of(loop + f'  spec: {{policy: {{limits: {{key: "{half}", max: 1}}}}}}\n')
    run = Driver(plan, lambda *_: ok(None)).run()
    (failed,) = run.find(ev.StepFailed)
    assert failed.error["kind"] == "limit"
    assert f"limit {MAX_KEY_WORK} units" in failed.error["message"]


def test_a_trigger_and_a_task_have_one_budget_too() -> None:
    half = "{{ ('{0!r:.0}' * 2).format('ab' * 400000) ~ 'x' }}"
    trigger = Trigger("t", "x", PlaybookRef("p"), filter=half, mapping={"a": half, "b": half, "c": half})
    found = react(trigger, Arrived("x", b"{}", {}, ("s", 1)))
    assert isinstance(found, Broken)
    assert "one decision" in found.reason
    with pytest.raises(OverLimit, match="one decision"):
        rendered(Task("t", "noop", {"a": [half] * 4}), {}, {})


def test_a_decision_within_another_pays_for_itself_and_tells() -> None:
    with Budget(None) as around:
        with Budget() as inner:
            evaluate("{{ 1 + 1 }}", {})
        assert 0 < inner.used == around.used


def test_a_condition_is_bounded_as_a_value_is() -> None:
    with pytest.raises(TemplateError, match="units"):
        truth("{{ ('{0!r:.0}' * 2000).format(s) == '' }}", {"s": S})
