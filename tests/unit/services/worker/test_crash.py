"""An error of the worker itself is tried again, then fails the run: nothing comes back for ever."""

import asyncio
from typing import Any

import pytest

from services.worker import service as worker_service
from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.errors import Refused
from shared.events import command as commands
from shared.events import subjects
from shared.events.command import Command
from shared.events.model import StepFailed
from shared.events.record import decode
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import ToolOptions
from shared.tools.toolbox import Tools
from tests.unit.engine.support import HEAD, plan_of

WORKFLOW = "- {step: start, tool: {kind: noop}}"


class BrokenTools(Tools):
    def get(self, kind: str) -> Any:
        raise RuntimeError("a bug of ours")


class RefusedTools(Tools):
    def get(self, kind: str) -> Any:
        raise Refused("a name of 6000 characters, over the broker's limit")


async def test_a_run_that_is_refused_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 1000.0)  # tried again, it would not end
    end = await _ended(RefusedTools(ToolOptions()))
    assert "over the broker's limit" in end.error["message"]


async def test_a_run_that_crashes_the_worker_fails_after_some_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.01)
    end = await _ended(BrokenTools(ToolOptions()))
    assert end.error["kind"] == "internal"
    assert "a bug of ours" in end.error["message"]


async def _ended(tools: Tools) -> StepFailed:
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {WORKFLOW}".encode()
    entry = await register(bus, source, plan_of(WORKFLOW))
    command = Command("x1", "start:1", "start", entry.digest, "default", 0)
    await bus.append(subjects.command("default", "x1", "start:1"), commands.encode(command))
    settings = Settings(instance="w1", partitions=1)
    worker = Worker(bus, settings, SystemClock(), tools)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, lambda: None))
    try:
        async with asyncio.timeout(60):
            return await _terminal(bus)
    finally:
        stop.set()
        await running


async def _terminal(bus: MemoryBus) -> StepFailed:
    follower = bus.follow(topology.events_stream(0), subjects.written(0, "x1", ["worker"]), 0)
    while True:
        for message in await follower.batch():
            for event in decode(message, 1).events:
                if isinstance(event, StepFailed):
                    return event
