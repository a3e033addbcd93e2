"""Places of keys, priority and fairness, on a real stack."""

import asyncio
import uuid
from typing import Any

import msgspec
import pytest

from services.cli.executions import requests
from services.cli.executions.records import history
from shared.answers.history.summary import Summary
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record
from shared.events.request import Control, Request
from shared.events.stamp import seconds
from shared.events.subjects import inbox_prefix
from tests.conformance.stand.lab import Lab
from tests.conformance.test_sub_playbooks import book
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SLEEP = 'tool: {{kind: python, args: {{s: {seconds}}}, code: "import time; time.sleep(s); result = 1"}}'


class Together:
    """Executions asked for at the same moment, and their logs."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._partitions = lab, lab.stack.options.partitions
        self.ids: list[str] = []

    async def ask(self, path: str, payload: dict[str, Any] | None = None, priority: int | None = None) -> str:
        execution_id = uuid.uuid4().hex[:16]
        request = Request(path, "", payload or {}, execution_id, priority=priority)
        await requests.start(self._lab.bus, request, f"{inbox_prefix('admin')}.{execution_id}", self._partitions)
        self.ids.append(execution_id)
        return execution_id

    async def ended(self) -> dict[str, list[Record]]:
        found = {}
        async with asyncio.timeout(60):
            for execution_id in self.ids:
                while True:
                    records = await history(self._lab.bus, execution_id, self._partitions)
                    summary = Summary(execution_id)
                    for record in records:
                        summary.apply(record)
                    if summary.over:
                        break
                    await asyncio.sleep(0.05)
                assert summary.status == "completed", summary.error
                found[execution_id] = records
        return found


def spans(histories: dict[str, list[Record]], step: str) -> list[tuple[float, float]]:
    """When each run, or iteration, of the step was in a worker's hands."""
    begun: dict[tuple[str, str, int], float] = {}
    found = []
    for execution_id, records in histories.items():
        for record in records:
            lease = record.lease
            if lease is None or lease.step != step:
                continue
            key = execution_id, lease.run_id, lease.index
            begun.setdefault(key, seconds(record.ts))
            if isinstance(record.events[-1], ev.StepDone | ev.IterationDone):
                found.append((begun[key], seconds(record.ts)))
    return sorted(found)


def most(found: list[tuple[float, float]]) -> int:
    """How many at the same time."""
    return max(sum(other[0] <= start < other[1] for other in found) for start, _ in found)


async def test_never_more_runs_of_a_step_than_its_limit_over_all_executions(lab: Lab) -> None:
    await lab.register(book("limit/step", f"""
    - step: start
      spec: {{policy: {{limits: {{max: 2}}}}}}
      {SLEEP.format(seconds=0.15)}
    """))
    together = Together(lab)
    for _ in range(6):
        await together.ask("limit/step")
    histories = await together.ended()
    found = spans(histories, "start")
    assert len(found) == 6
    assert most(found) == 2
    granted = [event for records in histories.values() for record in records for event in record.events
               if isinstance(event, ev.LimitGranted)]
    assert {event.key for event in granted} == {"limit/step/start"}


async def test_the_key_of_an_iteration_may_depend_on_its_element(lab: Lab) -> None:
    ran = await lab.run(book("limit/key", f"""
    - step: start
      spec: {{policy: {{limits: {{key: "tenant/{{{{ iter.item.tenant }}}}", max: 1}}}}}}
      loop: {{in: "{{{{ workload.items }}}}", iterator: item, spec: {{mode: parallel, max_in_flight: 10}}}}
      {SLEEP.format(seconds=0.1)}
    """, '{items: [{tenant: a}, {tenant: a}, {tenant: b}, {tenant: b}, {tenant: c}]}'))
    assert ran.status == "completed", ran.error
    keys = [event["key"] for event in ran.of("limit.granted")]
    assert sorted(keys) == ["tenant/a", "tenant/a", "tenant/b", "tenant/b", "tenant/c"]
    found = spans({"one": ran.records}, "start")
    assert len(found) == 5
    assert most(found) <= 3


async def test_no_more_begin_within_the_time_of_a_rate(lab: Lab) -> None:
    ran = await lab.run(book("limit/rate", """
    - step: start
      spec: {policy: {limits: {rate: "3/500ms"}}}
      loop: {in: "{{ range(8) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 8}}
      tool: {kind: noop}
    """))
    assert ran.status == "completed", ran.error
    times = sorted(seconds(event["ts"]) for event in ran.events if event["event_type"] == "limit.granted")
    assert len(times) == 8
    assert all(later - earlier >= 0.49 for earlier, later in zip(times, times[3:], strict=False))


async def test_a_playbook_with_a_limit_runs_one_execution_after_the_other(lab: Lab) -> None:
    text = book("limit/playbook", f"- step: start\n  {SLEEP.format(seconds=0.2)}\n")
    await lab.register(text.replace("workload:", "executor: {spec: {policy: {limits: {max: 1}}}}\nworkload:", 1))
    together = Together(lab)
    for _ in range(3):
        await together.ask("limit/playbook")
    assert most(spans(await together.ended(), "start")) == 1


async def test_who_has_the_higher_priority_gets_the_next_place(lab: Lab) -> None:
    await lab.register(book("limit/priority", f"""
    - step: start
      spec: {{policy: {{limits: {{key: one-door, max: 1}}}}}}
      {SLEEP.format(seconds=0.3)}
    """))
    together = Together(lab)
    await together.ask("limit/priority")
    low = [await together.ask("limit/priority", priority=1) for _ in range(2)]
    high = await together.ask("limit/priority", priority=9)
    histories = await together.ended()
    began = {key: spans({key: records}, "start")[0][0] for key, records in histories.items()}
    assert began[high] < min(began[each] for each in low)


async def test_a_key_that_gives_no_text_fails_the_step_and_says_so(lab: Lab) -> None:
    for workflow in ("""
    - step: start
      spec: {policy: {limits: {key: "{{ workload.nothing }}", max: 1}}}
      tool: {kind: noop}
    """, """
    - step: start
      spec: {policy: {limits: {key: "{{ iter.item.none }}", max: 1}}}
      loop: {in: [{a: 1}], iterator: item}
      tool: {kind: noop}
    """):
        ran = await lab.run(book("limit/keyless", workflow))
        assert (ran.status, ran.error["kind"]) == ("failed", "template")
        assert "limits.key" in ran.error["message"]


async def test_a_run_that_waits_keeps_its_place_and_a_cancelled_one_gives_it_back(lab: Lab) -> None:
    await lab.register(book("limit/parked", """
    - step: start
      spec: {policy: {limits: {key: parking, max: 1}}}
      tool: {kind: signal, signal: go}
    """))
    together = Together(lab)
    first, second = await together.ask("limit/parked"), await together.ask("limit/parked")
    partitions = lab.stack.options.partitions

    async def waits() -> list[str]:
        found = []
        for execution_id in (first, second):
            records = await history(lab.bus, execution_id, partitions)
            if any(isinstance(event, ev.TaskWaiting) for record in records for event in record.events):
                found.append(execution_id)
        return found

    (holder,) = await until(waits, "one waits", 20.0)
    await asyncio.sleep(0.3)
    assert await waits() == [holder]
    await lab.bus.append(subjects.CANCEL, msgspec.json.encode(Control(holder)))
    both = await until(waits, "the other waits too", 20.0, so=lambda found: len(found) >= 2)
    assert sorted(both) == sorted([first, second])
    other = second if holder == first else first
    await lab.bus.append(subjects.SIGNAL, msgspec.json.encode(Control(other, name="go")))
    together.ids = [other]
    await together.ended()
