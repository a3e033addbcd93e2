"""A run that has ended leaves nothing that only the collector of circles would free: looking for those took as long as
the runs themselves."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from services.worker.hold import Hold
from services.worker.interpreter import Interpreter
from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.engine.pipeline.local_machine import LocalMachine
from shared.engine.pipeline.machine import RunMachine
from shared.events import command as commands
from shared.events import subjects
from shared.events.classes import ENDS_LEASE
from shared.events.command import Command, Local
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import decode
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.toolbox import Tools
from tests.unit.engine.support import HEAD, plan_of

NOOP = "- {step: start, tool: {kind: noop}}"
CALL = "- {step: start, tool: {kind: http, url: 'http://example.org', spec: {policy: {rules: [RULE]}}}}"
AGAIN = CALL.replace("RULE", "{else: {then: {do: retry, attempts: 3, delay: 0.01}}}")
DONE = CALL.replace("RULE", "{else: {then: {do: continue}}}")
LOOP = "- {step: start, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: noop}}"
OVER = "- {step: start, spec: {policy: {lifecycle: {max_leases: 1}}}, tool: {kind: noop}}"
KINDS = (Hold, Interpreter, RunMachine, LocalMachine)


class Answers(Tools):
    """Instead of http."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(ToolOptions())
        self._outcome = outcome

    def get(self, kind: str) -> Any:
        return self if kind == "http" else super().get(kind)

    async def run(self, call: Call) -> Outcome:
        return self._outcome

    async def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(("workflow", "outcome", "local"), [
    (NOOP, ok(), None), (DONE, ok(1), None), (AGAIN, failed("x", "no"), None), (OVER, ok(), None),
    (LOOP, ok(), Local(items=[1, 2, 3], most=2)),
])
async def test_a_run_that_has_ended_leaves_nothing(workflow: str, outcome: Outcome, local: Local | None) -> None:
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus, tools = MemoryBus(broker), Answers(outcome)
    entry = await register(bus, f"{HEAD}workload: {{}}\nworkflow:\n  {workflow}".encode(), plan_of(workflow))
    now = SystemClock().now()
    for name in ("x1", "x2", "x3"):
        count = 0 if local is None else len(local.items)
        command = Command(
            name, "start:1", "start", entry.digest, "default", 0, fresh=True, at=now, local=local, count=count)
        await bus.append(subjects.command("default", name, "start:1"), commands.encode(command))
    worker = Worker(bus, Settings(instance="w1", partitions=1), SystemClock(), tools)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, lambda: None))
    async with asyncio.timeout(60):
        await _ends(bus, 3 if local is None else 9)
    stop.set()
    await running
    assert [type(each).__name__ for each in gc.get_objects() if isinstance(each, KINDS)] == []


async def _ends(bus: MemoryBus, runs: int) -> None:
    """Waits until so many have ended."""
    follower, ended = bus.follow(topology.events_stream(0), [">"], 0), 0
    while ended < runs:
        for message in await follower.batch():
            ended += isinstance(decode(message, 1).events[-1], ENDS_LEASE)
    await follower.close()
