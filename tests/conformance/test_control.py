"""Cancel, pause, resume and signal, asked for on NATS subjects as any client can, on a real stack."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from services.cli.executions import requests
from services.cli.executions.records import follow, history
from shared.answers.history.summary import Summary
from shared.events import subjects
from shared.events.record import Record, event_type
from shared.events.request import Control, Request
from shared.events.subjects import inbox_prefix
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.conformance.test_sub_playbooks import book
from tests.support.processes import gone

pytestmark = pytest.mark.asyncio(loop_scope="module")
WITHIN_S = 20.0


class Running:
    """An execution under way."""

    def __init__(self, lab: Lab, execution_id: str) -> None:
        self.lab, self.id = lab, execution_id
        self.partitions = lab.stack.options.partitions

    async def records(self) -> list[Record]:
        return await history(self.lab.bus, self.id, self.partitions)

    async def summary(self) -> Summary:
        summary = Summary(self.id)
        for record in await self.records():
            summary.apply(record)
        return summary

    async def types(self) -> list[str]:
        return [event_type(event) for record in await self.records() for event in record.events]

    async def until(self, reached: Callable[[Summary, list[str]], bool]) -> Summary:
        """Follows the log until it is there."""
        summary, types = Summary(self.id), list[str]()
        async with asyncio.timeout(WITHIN_S), aclosing(follow(self.lab.bus, self.id, self.partitions)) as batches:
            async for batch in batches:
                for record in batch:
                    summary.apply(record)
                    types += map(event_type, record.events)
                if reached(summary, types):
                    break
        return summary

    async def seen(self, name: str, times: int = 1) -> None:
        await self.until(lambda _, types: types.count(name) >= times)

    async def over(self) -> Summary:
        return await self.until(lambda summary, _: summary.over)

    async def ask(self, subject: str, **fields: Any) -> None:
        asked = Control(self.id, by="test", **fields)
        await self.lab.bus.append(subject, msgspec.json.encode(asked))


async def started(lab: Lab, source: str, payload: dict[str, Any] | None = None) -> Running:
    entry = await lab.register(source)
    execution_id, partitions = uuid.uuid4().hex[:16], lab.stack.options.partitions
    request = Request(entry.path, entry.version, payload or {}, execution_id)
    await requests.start(lab.bus, request, f"{inbox_prefix('admin')}.{execution_id}", partitions)
    return Running(lab, execution_id)


async def _cancelled(run: Running, within: float) -> Summary:
    began = asyncio.get_running_loop().time()
    await run.ask(subjects.CANCEL, reason="enough")
    summary = await run.over()
    assert summary.status == "cancelled", summary.error
    assert summary.error == {"kind": "cancelled", "message": "enough"}
    assert asyncio.get_running_loop().time() - began < within
    return summary


async def test_cancel_stops_a_python_task(lab: Lab) -> None:
    code = "import time, os, pathlib; pathlib.Path(path).write_text(str(os.getpid())); time.sleep(60)"
    path = lab.folder / "pid"
    workflow = f"""
    - step: start
      tool: {{kind: python, args: {{path: "{path}"}}, code: "{code}"}}
    """
    run = await started(lab, playbook(workflow))
    await run.seen("task.started")
    for _ in range(200):
        await asyncio.sleep(0.05)
        if path.exists() and path.read_text():
            break
    await _cancelled(run, 6.0)
    assert await asyncio.to_thread(gone, int(path.read_text()))
    assert (await run.types()).count("step.failed") == 1


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that never answers, and waits for the caller to hang up."""
    await reader.read()
    writer.close()


async def test_cancel_stops_an_http_call_and_a_query(lab: Lab) -> None:
    dsn = await lab.database()
    server = await asyncio.start_server(_silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: call}, {step: query}]}
    - step: call
      tool: {kind: http, url: "{{ workload.url }}/slow"}
    - step: query
      tool: {kind: postgres, auth: pg_k8s, command: "SELECT pg_sleep(30)"}
    """
    run = await started(lab, playbook(workflow), {"url": url})
    await run.seen("task.started", 2)
    await asyncio.sleep(0.3)
    await _cancelled(run, 6.0)
    server.close()
    await asyncio.wait_for(server.wait_closed(), 5)
    left = await rows(dsn, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'")
    assert left == []


async def test_cancel_ends_a_wait_at_once(lab: Lab) -> None:
    run = await started(lab, playbook("- step: start\n  tool: {kind: wait, for: 1h}\n"))
    await run.seen("task.waiting")
    await _cancelled(run, 2.0)


async def test_cancel_stops_a_loop_and_its_iterations(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ range(100) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 20}}
      tool: {kind: python, code: "import time; time.sleep(30)"}
    """
    run = await started(lab, playbook(workflow))
    await run.seen("task.started", 2)
    await _cancelled(run, 8.0)
    before = await run.types()
    await asyncio.sleep(1.0)
    assert (await run.types()).count("task.started") == before.count("task.started")


async def test_cancel_goes_down_to_children(lab: Lab) -> None:
    leaf = "- step: start\n  tool: {kind: python, code: 'import time; time.sleep(60)'}\n"
    await lab.register(book("control/leaf", leaf))
    await lab.register(book("control/middle", "- step: start\n  tool: {kind: playbook, path: control/leaf}\n"))
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: many}]}
    - step: one
      tool: {kind: playbook, path: control/middle}
    - step: many
      loop: {in: "{{ [1, 2] }}", iterator: n, spec: {mode: parallel}}
      tool: {kind: playbook, path: control/leaf}
    """
    run = await started(lab, playbook(workflow))
    await run.seen("task.waiting", 3)
    children = [e.child.execution_id for r in await run.records() for e in r.events if event_type(e) == "task.waiting"]
    await asyncio.sleep(0.5)
    await _cancelled(run, 10.0)
    for child in children:
        assert (await Running(lab, child).summary()).status == "cancelled"


async def test_a_failed_execution_stops_what_still_runs(lab: Lab) -> None:
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: bad}]}
    - step: slow
      tool: {kind: python, code: "import time; time.sleep(60)"}
    - step: bad
      tool: [{kind: wait, for: 500ms}, {kind: python, code: "raise ValueError(1)"}]
    """
    run = await started(lab, playbook(workflow))
    assert (await run.over()).status == "failed"
    await run.seen("step.failed", 2)  # the second one is the worker's: it was stopped


async def test_a_failed_iteration_stops_the_others(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ range(2) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
      tool:
        - {kind: wait, for: 300ms}
        - kind: python
          args: {n: "{{ iter.n }}"}
          code: |
            import time
            if n == 1:
                raise ValueError(1)
            time.sleep(60)
    """
    run = await started(lab, playbook(workflow))
    assert (await run.over()).status == "failed"
    await run.seen("loop.iteration.failed", 2)


async def test_a_cancelled_execution_cannot_be_cancelled_again_or_resumed(lab: Lab) -> None:
    run = await started(lab, playbook("- step: start\n  tool: {kind: wait, for: 1h}\n"))
    await run.seen("task.waiting")
    await _cancelled(run, 2.0)
    for subject in (subjects.CANCEL, subjects.RESUME, subjects.PAUSE):
        await run.ask(subject)
    await run.seen("pause.requested")
    await asyncio.sleep(0.3)
    assert (await run.types()).count("playbook.processed") == 1


async def test_a_paused_execution_finishes_what_runs_and_starts_nothing(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: wait, for: 500ms}
      next: {arcs: [{step: after}]}
    - step: after
      loop: {in: "{{ [1, 2, 3] }}", iterator: n}
      tool: {kind: noop, args: {n: "{{ iter.n }}"}}
    """
    run = await started(lab, playbook(workflow))
    await run.ask(subjects.PAUSE, reason="lunch")
    await run.seen("playbook.paused")
    await asyncio.sleep(1.0)
    assert (await run.summary()).status == "paused"
    assert "task.resumed" not in await run.types()
    await run.ask(subjects.RESUME)
    assert (await run.over()).status == "completed"


async def test_a_signal_ends_its_wait_and_is_its_result(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        - name: approve
          kind: signal
          signal: approval
          schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}
        - {name: answer, kind: noop, args: {agreed: "{{ approve.approved }}"}}
    """
    run = await started(lab, playbook(workflow))
    await run.seen("task.waiting")
    await run.ask(subjects.SIGNAL, name="approval", payload={"approved": "perhaps"})
    await run.seen("signal.rejected")
    await run.ask(subjects.SIGNAL, name="other", payload={})
    await run.ask(subjects.SIGNAL, name="approval", payload={"approved": True})
    summary = await run.over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"agreed": True})


async def test_a_signal_that_came_early_is_kept_for_its_wait(lab: Lab) -> None:
    workflow = "- step: start\n  tool: [{kind: wait, for: 500ms}, {kind: signal, signal: go}]\n"
    run = await started(lab, playbook(workflow))
    await run.ask(subjects.SIGNAL, name="go", payload=7)
    summary = await run.over()
    assert summary.as_dict()["result"] == 7


async def test_no_signal_in_time_is_a_timeout(lab: Lab) -> None:
    ran = await lab.run(playbook("- step: start\n  tool: {kind: signal, signal: go, spec: {timeout: 0.5}}\n"))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
