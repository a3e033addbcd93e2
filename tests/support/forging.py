"""A worker that lies: what whoever holds a pool's credentials can write, on a stack that should not care."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from services.cli.stack import context, keeper
from services.cli.stack.embedded import SERVICES
from services.cli.verify.checker import Checker
from services.cli.verify.verdict import Verdict
from shared.bus import dead_letters
from shared.bus.jetstream import JetStreamBus
from shared.bus.permissions import worker_user
from shared.events import subjects
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service.main import connect
from tests.support.running import WAIT_S, Running
from tests.support.waiting import until

POOLS = ("default", "gpu")
WAITS = """\
- step: start
  tool: {kind: signal, signal: go}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: noop}
"""


class Liar:
    """A connection as a pool's worker. `says` writes an event record as it pleases."""

    def __init__(self, run: Running, bus: JetStreamBus, pool: str) -> None:
        self.run, self.bus, self.pool = run, bus, pool
        self.told: set[str] = set()

    async def says(
        self, execution_id: str, body: dict[str, Any] | bytes, *, writer: str = "worker", partition: int | None = None
    ) -> str:
        """Where the record stands now."""
        own = subjects.partition_of(execution_id, self.run.partitions)
        at = own if partition is None else partition
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        seq = await self.bus.append(subjects.event(at, execution_id, writer, self.pool), data)
        self.told.add(f"NOETL_EVENTS_{at}/{seq}")
        return f"NOETL_EVENTS_{at}/{seq}"

    async def buried(self) -> set[str]:
        """The places of which there is a dead letter."""
        found = await dead_letters.latest(self.run.bus, 1000)
        return {letter.note.place for letter in found if letter.note is not None}

    async def are_told(self) -> None:
        await until(self.buried, f"letters of {self.told}", WAIT_S, so=lambda found: self.told <= found, every_s=0.05)


@asynccontextmanager
async def stack(folder: Path) -> AsyncIterator[Running]:
    async with Stack(Options(folder, pools=POOLS, drain_s=5.0), SERVICES) as one:
        await one.ready()
        bus = await connect("test", one.settings_for("admin"))
        try:
            run = Running(one, bus, context.write(folder, keeper.context_of(one)))
            await run.register("waits", WAITS)
            yield run
        finally:
            await bus.close()


@asynccontextmanager
async def lying(run: Running, pool: str = "default") -> AsyncIterator[Liar]:
    bus = await connect("liar", run.stack.settings_for(worker_user(pool), pool=pool))
    try:
        yield Liar(run, bus, pool)
    finally:
        await bus.close()


async def waiting(run: Running) -> str:
    """An execution that waits for the signal `go`."""
    execution_id = await run.start("waits")
    await until(lambda: records(run, execution_id), "it waits", WAIT_S, every_s=0.05,
                so=lambda found: "waiting" in {writer for writer, _ in found})
    return execution_id


async def records(run: Running, execution_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Writer and body of all that stands under an execution, forged or not."""
    partition = subjects.partition_of(execution_id, run.partitions)
    messages = (await run.log())[partition]
    places = [(subjects.parse_event(message.subject), message.data) for message in messages]
    return [(place.writer, _json(data)) for place, data in places if place.execution_id == execution_id]


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    """As a record has it."""
    return {"event_type": kind, **fields}


async def verdict(run: Running, execution_id: str) -> Verdict:
    found = await Checker(run.bus, run.partitions, None, 0.0).one(execution_id)
    assert found is not None
    return found[0]
