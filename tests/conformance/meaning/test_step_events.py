"""The events of a formal step on a real stack: what acts on each, and in which order (FX §6–8, FS §3.4, §8, §10)."""

from typing import Any

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, Ran, playbook, rows
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH = """
- step: start
  tool: {kind: python, args: {bad: "{{ workload.bad }}"}, code: "result = {'n': 1 // (0 if bad else 1)}"}
  case:
    - when: "{{ event.name == 'step.exit' }}"
      then:
        sink: {tool: {kind: postgres, auth: pg_k8s, table: seen}, args: {what: exit}}
        next: [{step: left}]
    - when: "{{ event.name == 'call.done' }}"
      then:
        sink: {tool: {kind: postgres, auth: pg_k8s, table: seen}, args: {what: "done {{ result.n }}"}}
    - when: "{{ event.name == 'call.error' }}"
      then:
        sink: {tool: {kind: postgres, auth: pg_k8s, table: seen}, args: {what: "{{ error.kind }}"}}
        next: [{step: right}]
  next: [{step: other}]
- {step: left, tool: {kind: noop}}
- {step: right, tool: {kind: noop}}
- {step: other, tool: {kind: noop}}
"""


async def seen_table(lab: Lab) -> str:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE seen (at serial, what text)")
    return dsn


async def stored(dsn: str) -> list[Any]:
    return [what for (what,) in await rows(dsn, "SELECT what FROM seen ORDER BY at")]


def place(ran: Ran, event_type: str, **fields: Any) -> int:
    """Where the first such event stands in the log."""
    return next(at for at, event in enumerate(ran.events) if event["event_type"] == event_type
                and all(event["payload"].get(name) == value for name, value in fields.items()))


async def test_the_first_rule_of_each_event_acts_and_the_exit_leads_on(lab: Lab) -> None:
    dsn = await seen_table(lab)
    ran = await lab.run(playbook(BOTH), {"bad": False})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "left"]), ran.error
    assert await stored(dsn) == ["done 1", "exit"]


async def test_a_next_on_the_event_of_the_call_stands_and_the_exit_comes_after_a_failure_too(lab: Lab) -> None:
    dsn = await seen_table(lab)
    ran = await lab.run(playbook(BOTH), {"bad": True})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "right"]), ran.error
    assert await stored(dsn) == ["python", "exit"]


@pytest.mark.parametrize("name", ["step.exit", "step.finished"])
@pytest.mark.parametrize("shape", [
    "case: [{when: WHEN, then: {next: after}}]", "next: {arcs: [{step: after, when: WHEN}]}"])
async def test_a_step_is_left_after_a_failure_too(lab: Lab, name: str, shape: str) -> None:
    workflow = """
    - step: start
      tool: {kind: python, code: "raise ValueError('no')"}
      SHAPE
    - {step: after, tool: {kind: noop}}
    """.replace("SHAPE", shape)
    ran = await lab.run(playbook(workflow.replace("WHEN", f"\"{{{{ event.name == '{name}' }}}}\"")))
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "after"])
    guarded = f"\"{{{{ event.name == '{name}' and event.error is none }}}}\""
    ran = await lab.run(playbook(workflow.replace("WHEN", guarded)))
    assert (ran.status, ran.error["message"]) == ("failed", "ValueError: no")


POLICIES = """
- step: start
  tool: {kind: http, url: "{{ workload.url }}/a"}
  retry:
    - {when: "{{ error.status == 503 }}", then: {max_attempts: 2, initial_delay: 0}}
    - {when: "{{ error.status in [500, 503] }}", then: {max_attempts: 9, initial_delay: 0}}
    - {when: "{{ error is defined }}", then: {max_attempts: 9, next_call: {params: {again: 1}}}}
"""


async def test_the_first_policy_that_matches_is_the_one_of_the_call(lab: Lab, api: Api) -> None:
    """FX §6.2: used up, no other one retries."""
    api.refused = {"/a": 503}
    ran = await lab.run(playbook(POLICIES), {"url": api.url})
    assert (ran.status, ran.error["status"], len(api.asked)) == ("failed", 503, 2)
    api.refused, api.asked = {"/a": 500}, []
    ran = await lab.run(playbook(POLICIES), {"url": api.url})
    assert (ran.status, ran.error["status"], len(api.asked)) == ("failed", 500, 9)


SINK = """
- step: start
  tool: {kind: python, code: "result = {'n': 1}"}
  case:
    - {when: "{{ event.name == 'step.exit' and result.n == 1 }}", then: {next: [{step: two}]}}
    - {when: "{{ event.name == 'call.error' }}", then: {next: [{step: rescue}]}}
  sink:
    tool: {kind: postgres, auth: pg_k8s, table: "{{ workload.table }}"}
    args: {what: "{{ result.n }}"}
    when: "{{ workload.store }}"
- {step: two, tool: {kind: noop}}
- {step: rescue, tool: {kind: noop}}
"""


async def test_a_sink_runs_when_it_is_known_where_the_step_leads_and_before_that_starts(lab: Lab) -> None:
    """FS §3.4, and §10.1: it is in the log that it ran, or was skipped."""
    dsn = await seen_table(lab)
    ran = await lab.run(playbook(SINK), {"store": True, "table": "seen"})
    assert (ran.status, await stored(dsn)) == ("completed", ["1"]), ran.error
    routed, began = place(ran, "task.done", task="start_exit"), place(ran, "task.started", task="start_sink")
    assert ran.events[routed]["payload"]["set_ctx"] == {"start_rule": 1}
    done, next_step = place(ran, "task.done", task="start_sink"), place(ran, "step.scheduled", step="two")
    assert routed < began < done < next_step
    ran = await lab.run(playbook(SINK), {"store": False, "table": "seen"})
    assert (ran.status, await stored(dsn)) == ("completed", ["1"])
    (gate,) = ran.of("task.done", task="start_sink_if")
    assert (gate["do"], gate["to"], ran.of("task.started", task="start_sink")) == ("jump", "start_done", [])


async def test_a_failed_sink_fails_the_step(lab: Lab) -> None:
    await seen_table(lab)
    ran = await lab.run(playbook(SINK), {"store": True, "table": "nowhere"})
    assert (ran.status, ran.error["task"], ran.error["code"]) == ("failed", "start_sink", "42P01")
    assert list(ran.summary.steps) == ["start"]


async def test_the_args_of_a_sink_are_the_row_or_the_body(lab: Lab, api: Api) -> None:
    dsn = await seen_table(lab)
    workflow = """
    - step: start
      tool: {kind: noop, args: {n: 7}}
      sink:
        - {tool: {kind: postgres, auth: pg_k8s, table: seen}, args: {what: "row {{ result.n }}"}}
        - {tool: {kind: http, url: "{{ workload.url }}/kept"}, args: {n: "{{ result.n }}", all: "{{ this }}"}}
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert (ran.status, await stored(dsn)) == ("completed", ["row 7"]), ran.error
    assert api.posted == [{"n": 7, "all": {"n": 7}}]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
async def test_vars_of_a_loop_step_are_taken_once_of_its_result(lab: Lab, mode: str) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ workload.items }}", iterator: item, mode: MODE}
      tool: {kind: python, args: {item: "{{ item }}"}, code: "result = {'twice': item * 2}"}
      vars: {count: "{{ result | length }}", last: "{{ result[-1].twice }}"}
      case: [{when: "{{ event.name == 'step.exit' and vars.count == 3 }}", then: {next: [{step: two}]}}]
    - {step: two, tool: {kind: noop, args: {seen: "{{ vars.count }}:{{ vars.last }}"}}}
    """.replace("MODE", mode)
    ran = await lab.run(playbook(workflow), {"items": [1, 2, 3]})
    assert (ran.status, ran.result()) == ("completed", {"seen": "3:6"}), ran.error
    assert [patched["patch"] for patched in ran.of("ctx.patched")] == [{"count": 3, "last": 6}]
    assert place(ran, "loop.done") < place(ran, "ctx.patched") < place(ran, "next.selected", step="start")


async def test_the_args_of_a_call_win_over_those_of_the_workbook(lab: Lab) -> None:
    workbook = """
    workbook:
      - name: greet
        tool:
          kind: python
          args: {who: nobody, word: "dear {{ title }}", title: guest}
          code: "result = f'{word} {who}'"
      - name: keep
        tool: {kind: noop, args: {who: nobody, at: 1}}
    """
    workflow = """
    - {step: start, tool: {kind: workbook, name: greet, args: {who: Ann, title: Dr}}, next: two}
    - {step: two, tool: {kind: workbook, name: greet}, next: three}
    - {step: three, args: {who: Bob}, tool: {kind: workbook, name: keep}, next: end}
    - {step: end, tool: {kind: noop, args: {all: ["{{ start }}", "{{ two }}", "{{ three }}"]}}}
    """
    ran = await lab.run(playbook(workflow, root=workbook))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"all": ["dear Dr Ann", "dear guest nobody", {"who": "Bob", "at": 1}]}
