"""A whole stack in this process, with what a test asks of it."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.cli.executions import requests
from services.cli.executions.records import history
from services.cli.stack import context, keeper
from services.cli.stack.embedded import SERVICES
from services.router import control_requests
from shared.answers.history.summary import Summary
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.bus.topology import events_stream
from shared.dsl.compile import compile_playbook
from shared.events import subjects
from shared.events.request import Control, Request
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service.main import connect
from shared.runtime.stores import catalog
from shared.tools.registry import specs
from tests.support.playbooks import head
from tests.support.waiting import until

WAIT_S = 60.0


class Running:
    def __init__(self, stack: Stack, bus: JetStreamBus, context_file: Path) -> None:
        self.stack, self.bus, self.context_file = stack, bus, context_file
        self.partitions = stack.options.partitions

    async def register(self, name: str, workflow: str) -> None:
        source = f"{head(name, name)}workflow:\n{workflow}".encode()
        compiled = compile_playbook(source, kinds=specs())
        assert compiled.plan is not None, compiled.diagnostics
        await catalog.register(self.bus, source, compiled.plan)

    async def start(self, path: str, key: str = "") -> str:
        answer = await requests.start(self.bus, Request(path), f"_INBOX_admin.{uuid.uuid4().hex}", self.partitions, key)
        return answer.execution_id

    async def summary(self, execution_id: str) -> Summary:
        summary = Summary(execution_id)
        for record in await history(self.bus, execution_id, self.partitions):
            summary.apply(record)
        return summary

    async def ended(self, execution_id: str) -> Summary:
        return await until(
            lambda: self.summary(execution_id), f"{execution_id} ends", WAIT_S, every_s=0.05,
            so=lambda found: found.status in ("completed", "failed", "cancelled"))

    async def signal(self, execution_id: str, name: str, payload: Any) -> None:
        body = msgspec.json.encode(Control(execution_id, name=name, payload=payload))
        await self.bus.append(subjects.SIGNAL, body)

    async def log(self) -> dict[int, list[Message]]:
        """Every record with its sequence."""
        partitions = range(self.partitions)
        return {p: await self.bus.read(events_stream(p), [f"{subjects.EVENTS}.{p}.>"]) for p in partitions}


@asynccontextmanager
async def running(folder: Path, *, postgres: bool = False) -> AsyncIterator[Running]:
    async with Stack(Options(folder, postgres=postgres, drain_s=5.0), SERVICES) as stack:
        await stack.ready()
        bus = await connect("test", stack.settings_for("admin"))
        try:
            yield Running(stack, bus, context.write(folder, keeper.context_of(stack)))
        finally:
            await bus.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router, in this process, soon believes that an execution is not there and will not come."""
    monkeypatch.setattr(control_requests, "MISSING_S", (0.1, 0.2))
