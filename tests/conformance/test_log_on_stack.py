"""The log of real executions: whole envelopes, owners, replay, and no secret in it or anywhere else."""

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from services.cli.executions.readmodel import Watch
from shared.answers.verify.verify import verify
from shared.bus import topology
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.engine.routing.state import Execution, evolve
from shared.events import subjects
from shared.events.record import readable
from shared.tools import registry
from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, Ran, opened, playbook, rows
from tests.support.processes import listening
from tests.support.servers.postgres import execute
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENVELOPE = {
    "event_id", "event_type", "ts", "execution_id", "n", "source", "entity_type", "entity_id", "status",
    "step_run_id", "task_run_id", "trace_id", "parent_id", "payload",
}  # fmt: skip
ENTITIES = {"playbook", "workflow", "step", "tool", "loop", "retry"}
STATUSES = {"in_progress", "success", "error", "skipped"}
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
WORKERS_OWN = {
    "step.started", "task.started", "task.done", "task.retried", "policy.unmatched", "step.done",
    "loop.iteration.done",
}  # fmt: skip
EITHERS_OWN = {"step.failed", "loop.iteration.failed"}  # the scheduler's about a loop or a clash

EVERYTHING = playbook("""
- step: start
  tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: 1}}}}]}}}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}, {step: denied}]}
- step: denied
  spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
- step: left
  tool:
    kind: python
    args: {n: "{{ _attempt }}"}
    code: "result = 1 // (n - 1)"
    spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2}}]}}
  next: {arcs: [{step: meet}]}
- step: right
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel}}
  tool: {kind: python, args: {n: "{{ n }}"}, code: "result = 2 // n"}
  next: {arcs: [{step: meet}]}
- step: meet
  tool: {kind: python, code: "raise ValueError('no')"}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
- step: end
""")


async def plan_and_run(lab: Lab) -> tuple[Plan, Ran]:
    plan = compile_playbook(EVERYTHING, kinds=registry.specs(), file="test.yaml").plan
    assert plan is not None
    return plan, await lab.run(EVERYTHING)


async def test_every_event_has_the_whole_envelope(lab: Lab) -> None:
    """FX §9.1, FS §12.1, DSL2 §9.3."""
    _, ran = await plan_and_run(lab)
    assert ran.status == "completed"
    for event in ran.events:
        assert set(event) == ENVELOPE
        assert RFC3339.fullmatch(event["ts"])
        assert datetime.fromisoformat(event["ts"]).tzinfo is not None
        assert event["execution_id"] == ran.summary.execution_id
        assert event["source"] in ("server", "worker")
        assert event["entity_type"] in ENTITIES
        assert event["status"] in STATUSES
        assert event["entity_id"]
        if event["event_type"].startswith(("task.", "policy.")):
            assert event["task_run_id"].startswith(event["step_run_id"])
        if event["source"] == "worker":
            assert event["step_run_id"]
    assert len({event["event_id"] for event in ran.events}) == len(ran.events)
    assert len({event["trace_id"] for event in ran.events}) == 1


async def test_every_outcome_has_status_meta_and_an_error_that_says_kind_and_retryable(lab: Lab) -> None:
    """DSL2 §5.3, PIPE: outcome envelope."""
    _, ran = await plan_and_run(lab)
    outcomes = [found["outcome"] for found in ran.of("task.done") + ran.of("task.retried")]
    assert {outcome["status"] for outcome in outcomes} == {"ok", "error"}
    for outcome in outcomes:
        assert outcome["meta"]["attempt"] >= 1
        assert outcome["meta"]["duration_s"] >= 0
        if outcome["status"] == "error":
            assert {"kind", "message", "retryable"} <= set(outcome["error"])
            assert outcome["py"]["exception_type"]


async def test_the_start_step_is_scheduled_and_started_with_the_workload(lab: Lab) -> None:
    """FS §3.3."""
    ran = await lab.run(playbook("- {step: start, tool: {kind: noop, args: {n: '{{ workload.n }}'}}}"), {"n": 3})
    types = [event["event_type"] for event in ran.events]
    assert types.index("workflow.started") < types.index("step.scheduled") < types.index("step.started")
    assert (ran.of("step.scheduled")[0]["scope"], ran.result()) == ({"workload": {"n": 3}}, {"n": 3})


async def test_a_request_names_a_path_and_a_version_or_gets_the_last_one(lab: Lab) -> None:
    """FS §3.1."""
    text = playbook("- {step: start, tool: {kind: noop, args: {v: V}}}")
    for version in ("1", "2"):
        named = text.replace("args: {v: V}", f"args: {{v: {version}}}")
        await lab.register(named.replace("path: tests/conformance", f'path: tests/versions, version: "{version}"'))
    ran = [await lab.execute("tests/versions", version) for version in ("1", "2", "")]
    assert [one.result() for one in ran] == [{"v": 1}, {"v": 2}, {"v": 2}]


async def test_a_worker_needs_no_port_of_its_own() -> None:
    """FX §10.2: commands come and facts go over its own connection to the broker."""
    before = listening(os.getpid())  # what other tests of this process left open
    async with opened() as lab:
        assert "worker" in [unit.service.name for unit in lab.stack.units]  # within this process
        assert (await lab.run(playbook("- {step: start, tool: {kind: noop}}"))).status == "completed"
        assert listening(os.getpid()) <= before


async def test_every_writer_numbers_its_events_without_a_gap(lab: Lab) -> None:
    _, ran = await plan_and_run(lab)
    numbers: dict[Any, list[int]] = defaultdict(list)
    for record in ran.records:
        numbers[record.writer, record.lease] += range(record.n, record.n + len(record.events))
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


async def test_server_and_worker_write_the_events_that_are_theirs(lab: Lab) -> None:
    """DSL2 §9.2; loop.done by V10 §8 is the server's."""
    _, ran = await plan_and_run(lab)
    by: dict[str, set[str]] = defaultdict(set)
    for event in ran.events:
        by[event["source"]].add(event["event_type"])
    assert by["worker"] - EITHERS_OWN == WORKERS_OWN - {"policy.unmatched"}
    assert not by["server"] & WORKERS_OWN
    assert {
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
        "token.created", "token.rejected", "token.joined", "step.scheduled", "ctx.patched", "next.selected",
        "loop.started", "loop.iteration.started", "loop.done", "workflow.finished", "playbook.processed",
    } == by["server"]  # fmt: skip


async def test_the_state_and_every_decision_follow_from_the_log_alone(lab: Lab) -> None:
    """FX §9.4: replay. PIPE: no hidden control flow."""
    plan, ran = await plan_and_run(lab)
    execution_id = ran.summary.execution_id
    partition = subjects.partition_of(execution_id, lab.stack.options.partitions)
    stream, subject = topology.events_stream(partition), subjects.events_of(partition, execution_id)
    entries = list(readable(await lab.bus.read(stream, [subject]), lab.stack.options.partitions))
    assert verify(execution_id, entries, lambda _: plan) == []
    state = Execution(execution_id)
    for seq, record in entries:
        if record.writer != "iteration":
            state = evolve(state, record, seq)
    assert (state.status, state.ctx, state.runs, state.tokens) == ("completed", {"n": 1}, {}, {})


# -- secrets ----------------------------------------------------------------------------------

SECRET = "s3cr3t-7f1c-never-to-be-seen"
SECRETS = playbook("""
- step: start
  tool:
    - {name: header, kind: http, url: "{{ workload.url }}/data",
       headers: {X-Key: "{{ keychain.api.token }}"}}
    - {name: bearer, kind: http, url: "{{ workload.url }}/data", auth: api}
    - {name: code, kind: python, auth: api, args: {t: "{{ keychain.api.token }}"}, code: "result = len(t)"}
    - {name: shell, kind: shell, auth: api, cmd: "echo {{ keychain.api.token }} $AUTH_TOKEN; echo $AUTH_TOKEN >&2"}
    - {name: store, kind: postgres, auth: pg, command: "INSERT INTO kept VALUES (1)"}
  next: {arcs: [{step: raises}]}
- step: raises
  tool: {kind: python, auth: api, code: "raise ValueError(auth['token'])"}
  next: {arcs: [{step: raises_arg, when: "{{ event.name == 'step.failed' }}"}]}
- step: raises_arg
  tool: {kind: python, args: {t: "{{ keychain.api.token }}"}, code: "print(t); raise ValueError(t)"}
  next: {arcs: [{step: fails, when: "{{ event.name == 'step.failed' }}"}]}
- step: fails
  tool: {kind: postgres, auth: pg, command: "SELECT nonsense"}
  next: {arcs: [{step: unreachable, when: "{{ event.name == 'step.failed' }}"}]}
- step: unreachable
  tool: {kind: http, url: "http://127.0.0.1:1/{{ keychain.api.token }}"}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
- step: end
""", root="keychain: [{name: api, kind: bearer}, {name: pg, kind: postgres_credential}]\n")


async def everything_stored(lab: Lab, execution_id: str) -> dict[str, str]:
    """All that outlives the execution, but for the keychain itself: streams, buckets, read model, logs."""
    read_model = Watch()
    await until(lambda: read_model.status_of(lab.stack.dsn(), execution_id), "its end is in the read model", 30,
                so=lambda status: status not in (None, "running"))
    await read_model.close()
    wanted = topology.wanted()
    streams = [stream.name for stream in wanted.streams if stream.retention != "workqueue"]
    streams += [f"KV_{bucket.name}" for bucket in wanted.buckets if bucket.name != topology.KEYCHAIN]
    found = {"log": lab.log}
    for stream in streams:
        messages = await lab.bus.read(stream, [">"])
        found[stream] = "".join(f"{m.subject} {m.headers} {m.data!r}" for m in messages)
    for (table,) in await rows(lab.stack.dsn(), "SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'"):
        found[table] = str(await rows(lab.stack.dsn(), f"SELECT t::text FROM noetl.{table} AS t"))
    found |= {str(file): file.read_text(errors="replace") for file in lab.folder.glob("**/*.log")}
    return found


@asynccontextmanager
async def overheard(lab: Lab) -> AsyncIterator[list[bytes]]:
    """Every message of the product while the block runs, also those of queues: requests and commands."""
    inbox, messages = await lab.bus.subscribe("noetl.>"), list[bytes]()

    async def listen() -> None:
        while True:
            messages.append(await inbox.next())

    task = asyncio.create_task(listen())
    try:
        yield messages
    finally:
        task.cancel()
        await asyncio.wait({task})
        await inbox.close()


async def test_a_secret_reaches_its_tools_and_no_event_log_line_or_table(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE kept (n int)")
    await lab.credential("api", {"type": "bearer", "token": SECRET})
    await lab.credential("pg", {"dsn": dsn, "password": SECRET})
    api.pages = {"/data": [[1]]}
    async with overheard(lab) as messages:
        ran = await lab.run(SECRETS, {"url": api.url})
    assert ran.status == "completed", ran.error
    assert list(ran.summary.steps) == ["start", "raises", "raises_arg", "fails", "unreachable", "end"]
    assert (api.headers[0]["x-key"], api.headers[1]["authorization"]) == (SECRET, f"Bearer {SECRET}")
    assert await rows(dsn, "SELECT n FROM kept") == [(1,)]
    stored = await everything_stored(lab, ran.summary.execution_id) | {"messages": str(messages)}
    assert len(stored) > 15
    assert all(ran.summary.execution_id in stored[where] for where in ("record_group", "messages"))
    assert [where for where, text in stored.items() if SECRET in text] == []
