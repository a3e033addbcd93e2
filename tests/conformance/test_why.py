"""Why is it not running? One constructed stall per cause, on a real stack: the answer names it, with its values."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from services.cli.executions.selection import Selection
from services.cli.stack import context
from services.cli.stack.remedies import words
from services.cli.why import held, many
from services.cli.why import text as why_text
from shared.bus import pool_consumer, topology
from shared.bus.streams import ensure
from shared.dsl.documents.pools import Pool
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, Record, encode
from shared.events.stamp import seconds, stamp
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import catalog, pools
from tests.conformance.stand.stage import SLOTS, Stage, stage

__all__ = ["stage"]

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIGNAL = "tool: {kind: signal, signal: go}"
SLEEP = 'tool: {kind: shell, cmds: ["sleep 60"]}'
NEVER_S = 3600.0


async def test_over(stage: Stage) -> None:
    execution = await stage.begin("- step: start\n  tool: {name: calc, kind: python, code: 'raise ValueError(7)'}\n")
    reason, answer = await stage.stalled(execution, "over")
    assert (answer.status, reason.kind, reason.step, reason.task) == ("failed", "over", "start", "calc")
    assert "ValueError" in reason.values["error"]["message"]
    assert words(reason.remedy).startswith(f"noetlctl rerun {execution} --failed, with the same source; if that is at")


async def test_it_runs_right_now(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SLEEP}\n")
    reason, answer = await stage.stalled(execution, "running")
    assert answer.status == "running"
    assert (reason.kind, reason.run_id, reason.task, reason.attempt) == ("running", "start:1", "start_task", 1)
    assert reason.values["worker"].startswith("worker-default")
    assert seconds(reason.values["lease_expires"]) > SystemClock().now()
    await stage.tell(subjects.CANCEL, execution)
    await stage.stalled(execution, "over")


async def test_the_request_has_not_been_taken(stage: Stage) -> None:
    async with stage.without("router"):
        execution = await stage.ask("why/nobody_knows_it")
        reason, answer = await stage.stalled(
            execution, "request.waiting", lambda reason, _: "no router is running" in reason.text
        )
        assert (answer.status, answer.path) == ("pending", "why/nobody_knows_it")
        assert "will be refused" in reason.text
        assert "python -m services.router" in words(reason.remedy)
        found = context.Found(stage.stack.settings_for("admin"))
        for chosen, is_meant in ((Selection(), True), (Selection(path="why/*"), True), (Selection(path="x"), False)):
            held_up = (await held.look(found, chosen, 100)).standing
            causes = {one.answer.execution_id: one.reason.cause for one in held_up}
            assert causes.get(execution) == ("request.waiting" if is_meant else None)
            assert is_meant is any(many.is_still(one, datetime.now(UTC), many.STILL_S) for one in held_up
                                   if one.answer.execution_id == execution)
    reason, _ = await stage.stalled(execution, "request.refused")
    assert "why/nobody_knows_it" in reason.text


async def test_a_request_that_no_router_can_use(stage: Stage) -> None:
    data = {"path": "why/x", "execution_id": "why-dead", "priority": 99}
    await stage.bus.append(subjects.EXECUTE, json.dumps(data).encode())
    reason, _ = await stage.stalled("why-dead", "request.refused")
    assert "priority 99" in reason.text


async def test_an_execution_nobody_has_heard_of(stage: Stage) -> None:
    assert await stage.why("nobody") is None


async def test_admission_denied_tells_the_rule_and_its_values(stage: Stage) -> None:
    execution = await stage.begin("""
    - step: start
      tool: {kind: noop, args: {size: 3}}
      next: {arcs: [{step: load}]}
    - step: load
      spec:
        policy:
          admit:
            rules:
              - when: "{{ start.size > workload.least }}"
                then: {allow: true}
              - else: {then: {allow: false}}
      tool: {kind: noop}
    """, payload={"least": 10})
    reason, answer = await stage.stalled(execution, "admission.denied")
    assert answer.status == "completed"
    first = reason.values["rules"][0]
    assert (first["when"], first["holds"]) == ("{{ start.size > workload.least }}", False)
    assert first["values"] == {"start": {"size": 3}, "workload.least": 10}
    assert (reason.step, reason.values["rule"], reason.values["rules"][1]["line"]) == ("load", 1, 17)


async def test_a_join_waits_for_what_can_still_reach_it(stage: Stage) -> None:
    execution = await stage.begin(f"""
    - step: start
      next: {{spec: {{mode: inclusive}}, arcs: [{{step: quick}}, {{step: slow}}]}}
    - {{step: quick, tool: {{kind: noop}}, next: {{arcs: [{{step: last}}]}}}}
    - step: slow
      {SIGNAL}
      next: {{arcs: [{{step: last}}]}}
    - {{step: last, tool: {{kind: noop}}}}
    """)
    reason, _ = await stage.stalled(
        execution, "join.waits", lambda _, answer: "wait.signal" in [each.cause for each in answer.reasons]
    )
    assert (reason.step, reason.values["join"], reason.values["runs"]) == ("last", "all", ["slow:1"])


async def test_paused_says_by_whom_and_why(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n")
    await stage.stalled(execution, "wait.signal")
    await stage.tell(subjects.PAUSE, execution, reason="lunch")
    reason, answer = await stage.stalled(execution, "paused")
    assert (answer.status, reason.values["by"], reason.values["reason"]) == ("paused", "test", "lunch")
    assert words(reason.remedy) == f"noetlctl resume {execution}"
    assert reason.since


async def test_a_pool_without_workers(stage: Stage) -> None:
    execution = await stage.begin("- step: start\n  spec: {pool: empty}\n  tool: {kind: noop}\n")
    reason, _ = await stage.stalled(execution, "pool.no_workers")
    assert (reason.run_id, reason.values["pool"], reason.values["workers"]) == ("start:1", "empty", [])
    assert "NOETL_POOL=empty python -m services.worker" in words(reason.remedy)


async def test_a_paused_pool(stage: Stage) -> None:
    now = SystemClock().now()
    until = now + NEVER_S
    await pool_consumer.pause(stage.bus, "halted", stamp(until))
    execution = await stage.begin("- step: start\n  spec: {pool: halted}\n  tool: {kind: noop}\n")
    reason, _ = await stage.stalled(execution, "pool.paused")
    assert (reason.values["pool"], words(reason.remedy)) == ("halted", "nats consumer resume NOETL_COMMANDS halted")
    assert seconds(reason.until) == pytest.approx(until, abs=0.001)
    document = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: halted}\nspec: {backend: external}\n"
    await pools.apply(stage.bus, Pool("halted", "external"), document, "ada", now)
    paused = pools.Pause("ada", now, "upgrade")
    await pools.change(stage.bus, "halted", "ada", now, lambda entry: replace(entry, paused=paused))
    await pool_consumer.pause(stage.bus, "halted", pool_consumer.FOR_EVER)
    reason, _ = await stage.stalled(execution, "pool.paused")
    assert (reason.values["by"], reason.values["note"], reason.until) == ("ada", "upgrade", "")
    assert (reason.since, words(reason.remedy)) == (stamp(now), "noetlctl pool resume halted")
    await pool_consumer.resume(stage.bus, "halted", SystemClock().now())
    await stage.stalled(execution, "over")


async def test_a_pool_that_does_not_exist(stage: Stage) -> None:
    execution = await stage.in_lost_pool()
    reason, _ = await stage.stalled(execution, "pool.unknown")
    assert "nowhere" in reason.text


async def test_a_full_pool_and_turns(stage: Stage) -> None:
    """Twelve long iterations for two slots: two run, some wait in the queue, the rest for their turn."""
    execution = await stage.begin(f"""
    - step: start
      loop: {{in: "{{{{ range(12) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 12}}}}
      {SLEEP}
    """)
    reason, answer = await stage.stalled(execution, "turn")
    assert reason.values["under_way"] < 12
    assert reason.values["room"] > 0
    reason, answer = await stage.stalled(execution, "pool.full")
    assert (reason.values["slots"], reason.values["busy"]) == (SLOTS, SLOTS)
    assert reason.values["held_by"] == {execution: SLOTS}
    causes = {each.cause: each for each in answer.reasons}
    told = [index for each in answer.reasons for index in each.indexes or (each.index,)]
    assert sorted(told) == list(range(12))
    assert len(causes["running"].indexes) == SLOTS
    single = await stage.begin("- step: start\n  tool: {kind: noop}\n")
    reason, _ = await stage.stalled(single, "pool.full")
    assert reason.values["before"] >= 1
    assert reason.values["held_by"] == {execution: SLOTS}
    await stage.tell(subjects.CANCEL, execution)
    await stage.stalled(single, "over")


async def test_a_loop_whose_window_is_full(stage: Stage) -> None:
    execution = await stage.begin(f"""
    - step: start
      loop: {{in: "{{{{ range(5) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 2}}}}
      {SIGNAL}
    """)
    _, answer = await stage.stalled(execution, "wait.signal", lambda reason, _: reason.indexes == (0, 1))
    window = next(each for each in answer.reasons if each.cause == "loop.window")
    assert (window.values["max_in_flight"], window.values["in_flight"], window.values["count"]) == (2, 2, 5)
    assert [each["index"] for each in window.values["oldest"]] == [0, 1]


async def test_backoff_until_when(stage: Stage) -> None:
    execution = await stage.begin("""
    - step: start
      tool:
        kind: python
        code: "raise ValueError('no luck')"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: retry, attempts: 4, delay: 600}
              - else: {then: {do: continue}}
    """)
    reason, _ = await stage.stalled(execution, "backoff")
    assert (reason.attempt, reason.values["attempts"]) == (2, 4)
    assert "no luck" in reason.values["error"]["message"]
    assert 200 < seconds(reason.until) - SystemClock().now() <= 301


async def test_a_wait_for_a_time(stage: Stage) -> None:
    execution = await stage.begin("- step: start\n  tool: {kind: wait, for: 1h}\n")
    reason, _ = await stage.stalled(execution, "wait.time")
    assert 3500 < seconds(reason.until) - SystemClock().now() <= 3600


async def test_a_signal_that_came_and_did_not_fit(stage: Stage) -> None:
    execution = await stage.begin(
        "- step: start\n  tool: {kind: signal, signal: approval, schema: {type: object, required: [ok]}}\n"
    )
    await stage.tell(subjects.SIGNAL, execution, name="approval", payload={})
    await stage.tell(subjects.SIGNAL, execution, name="other")
    reason, _ = await stage.stalled(
        execution, "wait.signal", lambda reason, _: reason.values["refused"] and reason.values["others"]
    )
    assert "'ok' is a required property" in reason.values["refused"][0]
    assert reason.values["others"] == ["other"]
    assert words(reason.remedy) == f"noetlctl signal {execution} approval --payload JSON"


async def test_a_child_says_what_it_waits_for_itself(stage: Stage) -> None:
    await stage.begin(f"- step: start\n  {SIGNAL}\n", path="why/child")
    execution = await stage.begin("- step: start\n  tool: {kind: playbook, path: why/child}\n")
    reason, _ = await stage.stalled(
        execution, "wait.child", lambda reason, _: [each.reasons[0].cause for each in reason.because] == ["wait.signal"]
    )
    child = reason.because[0]
    assert (child.execution_id, child.path) == (reason.values["child"], "why/child")


@pytest.mark.parametrize("where", ["step", "execution"])
async def test_a_limit_tells_who_holds_its_places(stage: Stage, where: str) -> None:
    limits = f"limits: {{key: why/{where}, max: 1}}"
    spec = f"  spec: {{policy: {{{limits}}}}}\n" if where == "step" else ""
    root = f"executor: {{spec: {{policy: {{{limits}}}}}}}\n" if where == "execution" else ""
    workflow = f"- step: start\n{spec}  {SIGNAL}\n"
    holder = await stage.begin(workflow, root=root)
    await stage.stalled(holder, "wait.signal")
    execution = await stage.begin(workflow, root=root)
    cause = "limit.places" if where == "step" else "limit.execution"
    reason, _ = await stage.stalled(execution, cause, lambda reason, _: reason.because)
    assert (reason.values["key"], reason.values["max"], reason.values["held"]) == (f"why/{where}", 1, 1)
    assert [each["execution_id"] for each in reason.values["holders"]] == [holder]
    assert [each.execution_id for each in reason.because] == [holder]
    assert reason.because[0].reasons[0].cause == "wait.signal"


async def test_a_rate_says_when_the_next_one_is_let_in(stage: Stage) -> None:
    workflow = "- step: start\n  spec: {policy: {limits: {key: why/rate, rate: 1/1h}}}\n  tool: {kind: noop}\n"
    await stage.stalled(await stage.begin(workflow), "over")
    reason, _ = await stage.stalled(await stage.begin(workflow), "limit.rate")
    assert 3500 < seconds(reason.until) - SystemClock().now() <= 3600
    assert reason.values["rate"] == "1 in 3600 s"


async def test_a_worker_that_is_not_heard_of_and_a_cancel_that_waits_for_it(stage: Stage) -> None:
    execution = await stage.begin("- step: start\n  spec: {pool: empty}\n  tool: {kind: noop}\n")
    await stage.stalled(execution, "pool.no_workers")
    now = SystemClock().now()
    lease = Lease("start:1", "start", (1, 2), "worker-lost", pool="empty")
    record = Record(execution, "worker", 1, stamp(now), (ev.StepStarted(), ev.TaskStarted("start_task")), lease=lease)
    await stage.append(execution, "worker", encode(record), "empty")
    await stage.stalled(execution, "pool.no_workers", lambda reason, _: "came_back_from" in reason.values)
    consumer = await stage.bus.consume(topology.COMMANDS, "empty", 64)
    try:
        while all(execution not in delivery.subject for delivery in await consumer.batch(64)):
            pass  # commands of others
    finally:
        await consumer.close()
    reason, _ = await stage.stalled(execution, "lease.silent")
    assert (reason.values["worker"], reason.values["deliveries"]) == ("worker-lost", 2)
    assert (reason.values["other_workers"], reason.until) == ([], "")
    assert "has not been heard of for over 10 s" in reason.text
    await stage.tell(subjects.CANCEL, execution, reason="enough", grace_s=300.0)
    reason, answer = await stage.stalled(execution, "cancelling")
    assert answer.status == "cancelling"
    assert [each["workers"] for each in reason.values["at_work"]] == [["worker-lost"]]
    assert seconds(reason.until) > now + 290


async def test_what_is_being_undone(stage: Stage) -> None:
    execution = await stage.begin("""
    - step: start
      spec: {policy: {compensate: {step: undo}}}
      tool: {kind: noop}
      next: {arcs: [{step: fails}]}
    - {step: fails, tool: {kind: python, code: "raise ValueError(1)"}}
    - {step: undo, tool: {kind: signal, signal: undone}}
    """)
    reason, answer = await stage.stalled(execution, "compensating", lambda reason, _: reason.run_id)
    assert (answer.status, reason.values["status"]) == ("compensating", "failed")
    assert "undo:1 undoes start:1" in reason.text


async def test_no_scheduler_is_running(stage: Stage) -> None:
    async with stage.without("scheduler"):
        execution = await stage.begin("- step: start\n  tool: {kind: noop}\n")
        reason, _ = await stage.stalled(execution, "scheduler.gone")
        assert (reason.kind, words(reason.remedy)) == ("blocked", "start a scheduler: python -m services.scheduler")
    await stage.stalled(execution, "over")


async def test_a_router_that_is_gone(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n")
    await stage.stalled(execution, "wait.signal")
    async with stage.without("router"):
        wish, now = ev.PauseRequested("x", "test", 1), stamp(SystemClock().now())
        record = Record(execution, "control", 1, now, (wish,), source="wish")
        await stage.append(execution, "control", encode(record))
        reason, _ = await stage.stalled(execution, "router.gone")
        assert reason.values["events"] == ["playbook.paused"]
    await stage.stalled(execution, "paused")


async def test_a_deadline_is_told(stage: Stage) -> None:
    spec = "spec: {policy: {lifecycle: {deadline_s: 900}}}"
    execution = await stage.begin(f"- step: start\n  {spec}\n  {SIGNAL}\n")
    reason, _ = await stage.stalled(execution, "deadline")
    assert (reason.kind, reason.run_id) == ("note", "start:1")
    assert 800 < seconds(reason.until) - SystemClock().now() <= 900


async def test_a_source_that_is_gone(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n", path="why/gone")
    await stage.stalled(execution, "wait.signal")
    entry = await catalog.find(stage.bus, "why/gone")
    await stage.bus.kv_delete(topology.PLAYBOOKS, f"source.{entry.digest}")
    reason, _ = await stage.stalled(execution, "playbook.gone")
    assert reason.values["digest"] == entry.digest


async def test_the_consumer_of_requests_is_gone(stage: Stage) -> None:
    async with stage.without("router"):
        await stage.bus.requests.api(f"CONSUMER.DELETE.{topology.REQUESTS}.router")
        execution = await stage.ask("why/nobody_knows_it")
        reason, answer = await stage.stalled(execution, "request.waiting")
        assert (answer.status, reason.values["consumer"]) == ("pending", False)
        assert "the consumer that gives requests to routers is not there" in reason.text
        await ensure(stage.bus, topology.wanted())
    await stage.stalled(execution, "request.refused")


async def test_a_log_whose_beginning_is_gone(stage: Stage) -> None:
    """It cannot be taken from the log here: an execution of which only a later record is there looks the same."""
    execution = uuid.uuid4().hex[:16]
    event = ev.NextSelected("start:1", "start", "step.done")
    late = Record(execution, "router", 7, stamp(SystemClock().now()), (event,))
    await stage.append(execution, "router", encode(late))
    reason, _ = await stage.stalled(execution, "log.corrupt")
    assert "its beginning is gone from the log: the first event of the router in it is number 7" in reason.text


async def test_a_log_that_cannot_be_read(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n")
    await stage.stalled(execution, "wait.signal")
    await stage.append(execution, "control", b"{}")
    reason, answer = await stage.stalled(execution, "log.corrupt")
    assert (answer.status, reason.kind) == ("running", "blocked")
    assert reason.values["read"] >= 2


async def test_every_answer_prints_as_text_and_as_json(stage: Stage) -> None:
    execution = await stage.begin("- step: start\n  tool: {kind: playbook, path: why/child}\n")
    _, answer = await stage.stalled(execution, "wait.child")
    shown = json.loads(json.dumps(why_text.shape(answer)))
    assert list(shown) == ["execution_id", "status", "path", "by", "started", "as_of", "reasons"]
    assert shown["reasons"][0]["cause"] == "wait.child"
