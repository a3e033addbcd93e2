"""How long one attempt of a task may take."""

import asyncio
from typing import Any

import pytest

from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.dsl.model.plan import Task
from shared.engine.pipeline import call as pipeline_call
from shared.events import command as commands
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import decode
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.toolbox import Tools
from tests.unit.engine.support import HEAD, plan_of

WORKFLOW = "- {step: start, tool: {kind: http, url: 'http://example.org'}}"


@pytest.mark.parametrize(("spec", "bounded", "limit"), [
    ({}, False, pipeline_call.MAX_TASK_S),
    ({}, True, 9_000.0),
    ({"timeout": 7_200}, False, 9_000.0),
    ({"timeout": {"total": 7_200}}, False, 9_000.0),
    ({"timeout": {"connect": 5}}, False, pipeline_call.MAX_TASK_S),
])
def test_a_task_has_an_hour_unless_something_says_otherwise(spec: dict[str, Any], bounded: bool, limit: float) -> None:
    assert pipeline_call.time_for(Task("t", "python", {}, spec=spec), 9_000.0, bounded=bounded) == limit
    assert pipeline_call.time_for(Task("t", "python", {}, spec=spec), 60.0, bounded=bounded) == 60.0


class Hangs:
    async def run(self, call: Call) -> Any:
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing was opened."""


class HangingTools(Tools):
    def get(self, kind: str) -> Any:
        return Hangs()


async def test_a_call_that_hangs_is_over_after_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_call, "MAX_TASK_S", 0.2)
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {WORKFLOW}".encode()
    entry = await register(bus, source, plan_of(WORKFLOW))
    command = Command("x1", "start:1", "start", entry.digest, "default", 0)
    await bus.append(subjects.command("default", "x1", "start:1"), commands.encode(command))
    worker = Worker(bus, Settings(instance="w1", partitions=1), SystemClock(), HangingTools(ToolOptions()))
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, lambda: None))
    try:
        async with asyncio.timeout(30):
            ended = await _failed(bus)
    finally:
        stop.set()
        await running
    assert (ended.error["kind"], ended.error["retryable"]) == ("timeout", True)
    assert "spec.timeout" in ended.error["message"]


async def _failed(bus: MemoryBus) -> ev.StepFailed:
    follower = bus.follow(topology.events_stream(0), subjects.written(0, "x1", ["worker"]), 0)
    while True:
        for message in await follower.batch():
            for event in decode(message, 1).events:
                if isinstance(event, ev.StepFailed):
                    return event
