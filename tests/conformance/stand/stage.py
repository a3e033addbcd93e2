"""A stack for stalls: pools without workers, services that can be stopped, and `why` asked until it says so."""

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio
import structlog

from services.cli.stack.embedded import SERVICES
from services.cli.why.questions import Asker
from shared.answers.why.facts import Answer, Reason
from shared.bus import pool_consumer
from shared.bus.jetstream import JetStreamBus
from shared.dsl.compile import compile_playbook
from shared.events import subjects
from shared.events.request import Control, Request
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import logging
from shared.runtime.service.main import connect
from shared.runtime.stores import catalog
from shared.tools import registry
from tests.conformance.test_sub_playbooks import book
from tests.support.waiting import until

WITHIN_S = 30.0
SLOTS = 2


class Stage:
    def __init__(self, stack: Stack, bus: JetStreamBus) -> None:
        self.stack, self.bus, self.partitions = stack, bus, stack.options.partitions

    async def begin(
        self, workflow: str, *, root: str = "", payload: dict[str, Any] | None = None, path: str = ""
    ) -> str:
        """The execution's id; it is asked for, not waited for."""
        path = path or f"why/{uuid.uuid4().hex[:8]}"
        text = book(path, workflow).replace("workload:", f"{root}workload:", 1)
        compiled = compile_playbook(text, kinds=registry.specs(), file="test.yaml")
        assert compiled.plan is not None, [str(found) for found in compiled.diagnostics]
        await catalog.register(self.bus, text.encode(), compiled.plan)
        return await self.ask(path, payload)

    async def in_lost_pool(self) -> str:
        """An execution whose pool is gone: it was there when the execution began."""
        await pool_consumer.ensure(self.bus, {"nowhere": ""})
        execution = await self.begin("- step: start\n  spec: {pool: nowhere}\n  tool: {kind: noop}\n")
        await self.stalled(execution, "pool.no_workers")
        await self.bus.requests.api("CONSUMER.DELETE.NOETL_COMMANDS.nowhere")
        return execution

    async def ask(self, path: str, payload: dict[str, Any] | None = None) -> str:
        execution_id = uuid.uuid4().hex[:16]
        request = Request(path, "", payload or {}, execution_id)
        await self.bus.append(subjects.EXECUTE, msgspec.json.encode(request))
        return execution_id

    async def tell(self, subject: str, execution_id: str, **fields: Any) -> None:
        await self.bus.append(subject, msgspec.json.encode(Control(execution_id, by="test", **fields)))

    async def why(self, execution_id: str) -> Answer | None:
        return await Asker(self.bus, self.partitions).answer(execution_id)

    async def stalled(
        self, execution_id: str, cause: str, there: Callable[[Reason, Answer], object] = lambda _reason, _answer: True
    ) -> tuple[Reason, Answer]:
        """The reason with that cause, once the execution has come to it and the answer is `there`."""
        answer = None
        for _ in range(round(WITHIN_S / 0.1)):
            answer = await self.why(execution_id)
            for reason in answer.reasons if answer is not None else ():
                assert answer is not None
                if reason.cause == cause and there(reason, answer):
                    return reason, answer
            await asyncio.sleep(0.1)
        raise AssertionError(f"not {cause}: {answer}")

    async def append(self, execution_id: str, writer: str, record: bytes, pool: str = "") -> None:
        partition = subjects.partition_of(execution_id, self.partitions)
        await self.bus.append(subjects.event(partition, execution_id, writer, pool), record)

    @asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """The service is stopped meanwhile."""
        unit = next(unit for unit in self.stack.units if unit.name == name)
        await unit.end()
        try:
            yield
        finally:
            unit.stop = asyncio.Event()
            unit.health.ready = False
            unit.task = asyncio.create_task(unit.as_task())  # type: ignore[arg-type]  # its exit code is nobody's
            await until(unit.ready, f"{name} is back", WITHIN_S)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="noetl-why-") as name:
        folder = Path(name)
        with (folder / "services.log").open("a", encoding="utf-8") as file:
            logging.configure("info", file)
            try:
                options = Options(folder, pools=("default", "empty", "halted", "lonely"), drain_s=2.0, slots=SLOTS)
                async with Stack(options, SERVICES) as stack:
                    await stack.ready()
                    for unit in stack.units:
                        if unit.name in ("worker-empty", "worker-lonely"):
                            await unit.end()
                    bus = await connect("why", stack.settings_for("admin"))
                    assert isinstance(bus, JetStreamBus)
                    try:
                        yield Stage(stack, bus)
                    finally:
                        await bus.close()
            finally:
                structlog.reset_defaults()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with staged() as one:
        yield one
