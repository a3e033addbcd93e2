"""Every name of FS §12.2 and FX §9.2, and those of DSL2 §9.2 that we do not write: a playbook that causes it, on a real
stack, read as `noetlctl events --names formal` reads it."""

import re
from typing import Any

import pytest

from services.cli.executions import logbook
from services.cli.executions.named_events import InFormal
from services.cli.executions.readmodel import Watch
from shared.events import aliases, subjects
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.conformance.test_control import Running, started
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

FX_FIELDS = {"event_id", "execution_id", "timestamp", "source", "name", "entity", "entity_id", "status", "data"}
FS_FIELDS = {"event_id", "event_type", "execution_id", "timestamp", "entity_type", "entity_id", "status", "payload"}
DSL2_FIELDS = {"event_id", "event_type", "ts", "execution_id", "step_run_id", "task_run_id", "trace_id", "parent_id",
               "payload"}
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
Events = list[dict[str, Any]]

# What each playbook causes: the event, its name in FX, its entity, who says it, its status.
Row = tuple[str, str, str, str, str]
FLOW = """
- step: start
  tool: {kind: python, code: "result = 1"}
  next: end
- step: end
"""
FLOW_ROWS: list[Row] = [
    ("playbook.execution.requested", "PlaybookExecutionRequested", "playbook", "server", "in_progress"),
    ("playbook.request.evaluated", "PlaybookRequestEvaluated", "playbook", "server", "success"),
    ("playbook.started", "playbook.started", "playbook", "server", "in_progress"),
    ("workflow.started", "WorkflowStarted", "workflow", "server", "in_progress"),
    ("token.created", "token.created", "workflow", "server", "in_progress"),
    ("token.enqueued", "token.enqueued", "workflow", "server", "in_progress"),
    ("token.claimed", "token.claimed", "workflow", "server", "success"),
    ("step.scheduled", "step.scheduled", "step", "server", "in_progress"),
    ("step.started", "StepStarted", "step", "server", "in_progress"),
    ("lease.claimed", "lease.claimed", "step", "worker", "in_progress"),
    ("tool.started", "ToolStarted", "tool", "worker", "in_progress"),
    ("tool.processed", "ToolCompleted", "tool", "worker", "success"),
    ("step.finished", "step.done", "step", "worker", "success"),
    ("next.evaluated", "NextEvaluated", "workflow", "server", "success"),
    ("token.created", "token.created", "workflow", "server", "in_progress"),
    ("token.enqueued", "token.enqueued", "workflow", "server", "in_progress"),
    ("next.enqueued", "next.enqueued", "workflow", "server", "success"),
    ("token.claimed", "token.claimed", "workflow", "server", "success"),
    ("step.scheduled", "step.scheduled", "step", "server", "in_progress"),
    ("step.started", "StepStarted", "step", "server", "in_progress"),
    ("step.finished", "step.finished", "step", "server", "success"),
    ("next.evaluated", "NextEvaluated", "workflow", "server", "success"),
    ("workflow.finished", "WorkflowFinished", "workflow", "server", "success"),
    ("playbook.processed", "PlaybookProcessed", "playbook", "server", "success"),
]
FAILS = """
- {step: start, tool: {kind: python, code: "raise ValueError('no')"}}
"""
FAILS_ROWS: list[Row] = [
    ("tool.processed", "ToolErrored", "tool", "worker", "error"),
    ("step.finished", "step.failed", "step", "worker", "error"),
    ("next.evaluated", "NextEvaluated", "workflow", "server", "success"),
    ("workflow.finished", "WorkflowFinished", "workflow", "server", "error"),
    ("playbook.processed", "PlaybookProcessed", "playbook", "server", "error"),
]
RETRIES = """
- step: start
  tool: {kind: python, args: {n: "{{ _attempt }}"}, code: "result = 1 // (n - 1)"}
  retry: {max_attempts: 2}
"""
RETRIES_ROWS: list[Row] = [
    ("tool.processed", "ToolErrored", "tool", "worker", "error"),
    ("retry.started", "RetryStarted", "retry", "worker", "in_progress"),
    ("tool.started", "ToolStarted", "tool", "worker", "in_progress"),
    ("tool.processed", "ToolCompleted", "tool", "worker", "success"),
    ("retry.processed", "RetryProcessed", "retry", "worker", "success"),
    ("step.finished", "step.done", "step", "worker", "success"),
]
SINKS = """
- step: start
  tool: {kind: python, code: "result = {'n': 1}"}
  sink:
    - {tool: {kind: python, args: {n: "{{ result.n }}"}, code: "result = n"}, when: "{{ result.n == 1 }}"}
    - {tool: {kind: python, code: "result = 3"}, when: "{{ result.n == 2 }}"}
"""
SINKS_ROWS: list[Row] = [
    ("tool.processed", "ToolCompleted", "tool", "worker", "success"),
    ("sink.started", "SinkStarted", "sink", "worker", "in_progress"),
    ("sink.processed", "SinkProcessed", "sink", "worker", "success"),
    ("sink.processed", "SinkProcessed", "sink", "worker", "skipped"),
]
CASES = """
- step: start
  tool: {kind: python, code: "result = {'n': 1}"}
  case:
    - when: "{{ event.name == 'call.done' and response.n == 1 }}"
      then: {set: {seen: "{{ result.n }}"}, next: [{step: end}]}
- step: end
"""
CASES_ROWS: list[Row] = [
    ("tool.processed", "ToolCompleted", "tool", "worker", "success"),
    ("case.started", "CaseStarted", "case", "worker", "in_progress"),
    ("case.evaluated", "CaseEvaluated", "case", "worker", "success"),
    ("case.started", "CaseStarted", "case", "server", "in_progress"),
    ("case.evaluated", "CaseEvaluated", "case", "server", "success"),
    ("next.evaluated", "NextEvaluated", "workflow", "server", "success"),
]
LOOPS = """
- step: start
  loop: {in: [1, 0], iterator: n}
  spec: {policy: {failure: {mode: best_effort}}}
  tool: {kind: python, args: {n: "{{ n }}"}, code: "result = 1 // n"}
"""
LOOPS_ROWS: list[Row] = [
    ("step.started", "StepStarted", "step", "server", "in_progress"),
    ("loop.started", "LoopStarted", "loop", "server", "in_progress"),
    ("loop.iteration.started", "LoopIterationStarted", "loop", "server", "in_progress"),
    ("loop.iteration.finished", "LoopIterationCompleted", "loop", "worker", "success"),
    ("loop.iteration.started", "LoopIterationStarted", "loop", "server", "in_progress"),
    ("loop.iteration.finished", "LoopIterationCompleted", "loop", "worker", "error"),
    ("loop.finished", "loop.done", "loop", "server", "success"),
    ("step.finished", "step.finished", "step", "server", "success"),
]
PAUSED_ROWS: list[Row] = [("playbook.paused", "PlaybookPaused", "playbook", "server", "paused")]
CAUSED = {"flow": (FLOW, FLOW_ROWS), "fails": (FAILS, FAILS_ROWS), "retries": (RETRIES, RETRIES_ROWS),
          "sinks": (SINKS, SINKS_ROWS), "cases": (CASES, CASES_ROWS), "loops": (LOOPS, LOOPS_ROWS)}


async def formal_events(lab: Lab, execution_id: str) -> Events:
    return await InFormal(lab.bus).of(await logbook.entries(lab.bus, execution_id, lab.stack.options.partitions))


async def run(lab: Lab, workflow: str) -> Events:
    return await formal_events(lab, (await lab.run(playbook(workflow))).summary.execution_id)


def row_of(event: dict[str, Any]) -> Row:
    return event["event_type"], event["name"], event["entity"], event["source"], event["status"]


def in_order(wanted: list[Row], events: Events) -> list[Row]:
    """What of it is not there in this order, among others."""
    left = list(wanted)
    for event in events:
        if left and row_of(event) == left[0]:
            left.pop(0)
    return left


@pytest.mark.parametrize("name", CAUSED)
async def test_what_happens_has_the_names_of_the_documents(lab: Lab, name: str) -> None:
    source, wanted = CAUSED[name]
    events = await run(lab, source)
    assert in_order(wanted, events) == [], [row_of(event) for event in events]


async def test_a_flow_has_these_events_and_no_others(lab: Lab) -> None:
    assert [row_of(event) for event in await run(lab, FLOW)] == FLOW_ROWS


async def test_every_name_has_a_playbook_that_causes_it() -> None:
    """Where FX has no name, ours is there."""
    caused = [row for _, found in CAUSED.values() for row in found] + PAUSED_ROWS
    tables = [*aliases.FORMAL.values(), *(each.name for each in aliases.SAID.values())]
    assert {each.fs for each in tables} - {""} - {row[0] for row in caused} == set()
    assert {each for row in tables for each in row[1:]} - {""} - {row[1] for row in caused} == set()


async def test_every_event_has_the_envelope_of_each_document(lab: Lab) -> None:
    """FX §9.1, FS §12.1, DSL2 §9.3."""
    for workflow in (FLOW, SINKS, LOOPS):
        events = await run(lab, workflow)
        for event in events:
            assert set(event) >= FX_FIELDS | FS_FIELDS | DSL2_FIELDS
            assert RFC3339.fullmatch(event["timestamp"])
            assert isinstance(event["data"], dict)
            assert event["source"] in ("server", "worker")
            assert event["entity"] in {"playbook", "workflow", "step", "tool", "loop", "sink", "retry", "case"}
        assert len({event["event_id"] for event in events}) == len(events)


async def test_an_iteration_starts_and_finishes_with_its_index(lab: Lab) -> None:
    parallel = LOOPS.replace("[1, 0]", "[1, 1, 1]").replace("iterator: n}", "iterator: n, mode: parallel}")
    events = await run(lab, parallel)
    for name in ("loop.iteration.started", "loop.iteration.finished"):
        found = [event for event in events if event["event_type"] == name]
        assert sorted(event["data"]["index"] for event in found) == [0, 1, 2]
        assert len({event["entity_id"] for event in found}) == 3


async def test_another_call_of_a_retry_policy_is_a_retry(lab: Lab) -> None:
    """FX §6: the same mechanism for errors and for repetition."""
    events = await run(lab, """
- step: start
  tool: {kind: python, args: {page: 1}, code: "result = {'page': page, 'more': page < 3}"}
  retry:
    - when: "{{ response.more }}"
      then:
        max_attempts: 9
        next_call: {args: {page: "{{ response.page + 1 }}"}}
        sink: {tool: {kind: python, args: {page: "{{ page.page }}"}, code: "result = page"}}
""")
    wanted = ("tool.processed", "retry.started", "retry.processed", "sink.processed")
    types = [event["event_type"] for event in events if event["event_type"] in wanted]
    once = ["retry.started", "sink.processed", "tool.processed", "retry.processed"]
    assert types == ["tool.processed", *once, *once, "sink.processed"]


async def paused(lab: Lab) -> Running:
    running = await started(lab, playbook("- {step: start, tool: {kind: signal, signal: go}}"))
    await running.seen("task.waiting")
    await running.ask(subjects.PAUSE, reason="look")
    await running.seen("playbook.paused")
    return running


async def test_a_paused_playbook_has_its_status_and_a_cancelled_step_is_skipped(lab: Lab) -> None:
    running = await paused(lab)
    await running.ask(subjects.CANCEL, reason="enough")
    await running.over()
    events = await formal_events(lab, running.id)
    assert in_order(PAUSED_ROWS, events) == []
    assert ("step.finished", "step.cancelled", "step", "server", "skipped") in map(row_of, events)
    assert row_of(events[-1]) == ("playbook.processed", "PlaybookProcessed", "playbook", "server", "skipped")


META = """
- step: start
  tool:
    kind: python
    code: "result = 1"
    spec:
      policy:
        rules:
          - when: "{{ outcome.meta.ended_at >= outcome.meta.started_at and outcome.meta.trace_id | length == 32 }}"
            then: {do: continue, set_ctx: {meta: "{{ outcome.meta }}"}}
          - else: {then: {do: fail}}
"""


async def test_rules_read_when_a_call_took_place_and_its_trace(lab: Lab) -> None:
    """DSL2 §5.3: attempt, duration, timestamps, trace ids."""
    ran = await lab.run(playbook(META))
    assert ran.status == "completed", ran.error
    meta = ran.summary.ctx["meta"]
    assert {"attempt", "duration_s", "started_at", "ended_at", "trace_id"} <= set(meta)
    assert all(RFC3339.fullmatch(meta[key]) for key in ("started_at", "ended_at"))
    assert {event["trace_id"] for event in ran.events} == {meta["trace_id"]}
    (logged,) = [payload["outcome"]["meta"] for payload in ran.of("task.done")]
    assert {"attempt", "duration_s", "started_at", "ended_at"} <= set(logged)


async def test_vars_are_in_the_table_transient(lab: Lab) -> None:
    """FX §8.2, FS §11.2."""
    ran = await lab.run(playbook("""
- {step: start, tool: {kind: python, code: "result = {'n': 3}"}, vars: {n: "{{ result.n }}"}}
"""))
    execution_id, read_model = ran.summary.execution_id, Watch()
    await until(lambda: read_model.status_of(lab.stack.dsn(), execution_id), "its end is in the read model", 30,
                so=lambda status: status not in (None, "running"))
    await read_model.close()
    found = await rows(lab.stack.dsn(), "SELECT execution_id, name, value FROM noetl.transient")
    assert (execution_id, "n", "3") in found
