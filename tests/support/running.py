"""A whole stack in this process, with what a test asks of it."""

import asyncio
import io
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from services.cli import context, keeper, requests
from services.cli.embedded import SERVICES
from services.cli.watch import history
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.bus.topology import events_stream
from shared.dsl.compile import compile_playbook
from shared.engine.summary import Summary
from shared.events import subjects
from shared.events.request import Control, Request
from shared.runtime import catalog
from shared.runtime.main import connect
from shared.runtime.stack import Options, Stack
from shared.tools.registry import specs

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: {0}}}\nworkflow:\n"
WAIT_S = 60.0


class Running:
    def __init__(self, stack: Stack, bus: JetStreamBus, context_file: Path) -> None:
        self.stack, self.bus, self.context_file = stack, bus, context_file
        self.partitions = stack.options.partitions

    async def register(self, name: str, workflow: str) -> None:
        source = (HEAD.format(name) + workflow).encode()
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
        async def over() -> bool:
            return (await self.summary(execution_id)).status in ("completed", "failed", "cancelled")

        await until(over)
        return await self.summary(execution_id)

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
            yield Running(stack, bus, context.write(folder, keeper._context(stack)))
        finally:
            await bus.close()


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await check():  # noqa: ASYNC110  somebody else makes it so
            await asyncio.sleep(0.05)


async def said(work: Any) -> tuple[int, Any]:
    """The exit code of a command's coroutine, and the JSON it printed."""
    out = io.StringIO()
    with redirect_stdout(out):
        code = await work
    return code, json.loads(out.getvalue())
