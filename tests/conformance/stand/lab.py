"""One embedded stack for many playbooks: real broker, real services, real PostgreSQL, the log read back."""

import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import asyncpg
import msgspec
import structlog
from msgspec import Struct

from services.cli.executions import requests
from services.cli.executions.records import history
from services.cli.stack.embedded import SERVICES
from shared.answers.history.summary import Summary
from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.compile import compile_playbook
from shared.events import subjects
from shared.events.record import Record, decode, envelopes
from shared.events.request import Request
from shared.events.subjects import inbox_prefix
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import logging
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Settings
from shared.runtime.stores import catalog, credentials
from shared.runtime.stores.catalog import Entry
from shared.runtime.stores.plans import Plans
from shared.tools import registry
from tests.support.playbooks import head
from tests.support.proved import assert_all_right
from tests.support.servers.postgres import fresh_database, running_postgres
from tests.support.verified import violations

LIMIT_S = 60.0
PG = "pg_k8s"


class Ran(Struct, frozen=True):
    """A finished execution: what its log says."""

    summary: Summary
    records: list[Record]
    events: list[dict[str, Any]]

    def of(self, event_type: str, **fields: Any) -> list[dict[str, Any]]:
        """The payloads of that type whose fields have these values."""
        found = [event["payload"] for event in self.events if event["event_type"] == event_type]
        return [payload for payload in found if all(payload.get(name) == value for name, value in fields.items())]

    def types(self, run_id: str, source: str = "worker", index: int = -1) -> list[str]:
        """The event types of one run (or iteration) by one source, in the order of the log."""
        mine = [
            record for record in self.records
            if record.lease is not None and (record.lease.run_id, record.lease.index) == (run_id, index)
        ]
        if source == "worker":
            return [event["event_type"] for record in mine for event in envelopes(record)]
        return [e["event_type"] for e in self.events if e["source"] == source and e["step_run_id"] == run_id]

    def result(self) -> Any:
        return self.summary.as_dict()["result"]

    @property
    def status(self) -> str:
        return self.summary.status

    @property
    def error(self) -> dict[str, Any]:
        return self.summary.error or {}


class _Silent:
    def update(self, _summary: Summary, _kin: object = None) -> None: ...

    def close(self) -> None: ...


class Lab:
    def __init__(self, stack: Stack, bus: Bus, folder: Path, servers: ExitStack) -> None:
        self.stack, self.bus, self.folder = stack, bus, folder
        self._servers, self._postgres = servers, ""

    @property
    def log(self) -> str:
        """Every log line of the services so far."""
        return (self.folder / "services.log").read_text(encoding="utf-8")

    async def credential(self, name: str, value: dict[str, Any]) -> None:
        await credentials.store(self.bus, name, value)

    async def database(self) -> str:
        """A fresh database that the credential of the examples leads to. The stack's own is the read model's alone."""
        self._postgres = self._postgres or await asyncio.to_thread(self._servers.enter_context, running_postgres())
        dsn = await fresh_database(self._postgres)
        await self.credential(PG, {"dsn": dsn})
        return dsn

    async def register(self, source: str | Path) -> Entry:
        text = _bytes(source)
        compiled = compile_playbook(text, kinds=registry.specs(), file="test.yaml")
        assert compiled.plan is not None, [str(found) for found in compiled.diagnostics]
        return await catalog.register(self.bus, text, compiled.plan)

    async def execute(self, path: str, version: str = "", payload: dict[str, Any] | None = None) -> Ran:
        """Requested as any client does, and followed to its end."""
        execution_id, partitions = uuid.uuid4().hex[:16], self.stack.options.partitions
        request = Request(path, version, payload or {}, execution_id)
        async with asyncio.timeout(LIMIT_S):
            await requests.start(self.bus, request, f"{inbox_prefix('admin')}.{execution_id}", partitions)
        return await self.finish(execution_id)

    async def refused(self, source: str | Path) -> Ran:
        """An execution that is over with its first record; whoever asked for it is told that it failed."""
        entry, execution_id = await self.register(source), uuid.uuid4().hex[:16]
        request = Request(entry.path, entry.version, {}, execution_id)
        await self.bus.append(subjects.EXECUTE, msgspec.json.encode(request))
        return await self.finish(execution_id)

    async def finish(self, execution_id: str) -> Ran:
        """Of one that was started."""
        partitions = self.stack.options.partitions
        async with asyncio.timeout(LIMIT_S):
            summary = await requests.finish(self.bus, execution_id, partitions, _Silent())
        records = await history(self.bus, execution_id, partitions)
        return Ran(summary, records, [_as_read(event) for record in records for event in envelopes(record)])

    async def run(self, source: str | Path, payload: dict[str, Any] | None = None) -> Ran:
        entry = await self.register(source)
        return await self.execute(entry.path, entry.version, payload)


async def _verify_all(bus: Bus, partitions: int) -> None:
    """Every decision of every execution follows from its log."""
    plans = Plans(bus)
    for partition in range(partitions):
        histories: dict[str, list[tuple[int, Record]]] = {}
        stream = topology.events_stream(partition)
        for message in await bus.read(stream, [f"{subjects.EVENTS}.{partition}.>"]):
            place = subjects.parse_event(message.subject)
            histories.setdefault(place.execution_id, []).append((message.seq, decode(message, partitions)))
        for execution_id, records in histories.items():
            found = await violations(bus, plans, execution_id, records, {})
            assert not found, (execution_id, found)


def _bytes(source: str | Path) -> bytes:
    return source.read_bytes() if isinstance(source, Path) else source.encode()


def _as_read(envelope: dict[str, Any]) -> dict[str, Any]:
    """The envelope as a reader of the API gets it: through JSON."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(envelope))
    return found


def playbook(workflow: str, *, workload: str = "{}", root: str = "") -> str:
    """A short playbook around a workflow."""
    begin = head("test", "tests/conformance")
    return f"{begin}{dedent(root)}workload: {workload}\nworkflow:\n{indent(dedent(workflow), '  ')}"


async def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


@asynccontextmanager
async def opened(slots: int = 64) -> AsyncIterator[Lab]:
    """In a folder of its own, which goes with it. An error that nobody sees, in a callback or a task, fails the
    module at its end."""
    unseen: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(repr(context)))
    with tempfile.TemporaryDirectory(prefix="noetl-conformance-") as name:
        folder = Path(name)
        with (folder / "services.log").open("a", encoding="utf-8") as file:
            logging.configure("info", file)
            try:
                asked = Settings(duckdb_files=(str(folder / "lake"),))
                options = Options(folder, postgres=True, drain_s=5.0, slots=slots, asked=asked)
                async with Stack(options, SERVICES) as stack:
                    await stack.ready()
                    bus = await connect("conformance", stack.settings_for("admin"))
                    try:
                        with ExitStack() as servers:
                            yield Lab(stack, bus, folder, servers)
                        await _verify_all(bus, stack.options.partitions)
                        await assert_all_right(bus, stack.options.partitions, stack.dsn())
                    finally:
                        await bus.close()
            finally:
                structlog.reset_defaults()
    assert unseen == []
