"""One step of what a projector removes: bounded in what it reads, holds and deletes, so that it projects beside it.

Results: the broker lists of which executions there are any, a page at a time; the read model says which of those are
old enough with their families (`families.py`), and the log that they are over. Nothing is removed while the read model
has not seen the log up to the margin before now: a rerun that it has not seen may need them.

Rows: executions in the order of their ends, from where the last step was. An execution is noted as purged before its
rows go, so that one that was cut short is found again by the records it still has. Its own row stays, for a late record
must find how it ended.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import asyncpg
from msgspec import Struct

from shared.bus import api, stored_messages, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.bounds import EXECUTION_ID
from shared.events.model import PlaybookProcessed
from shared.events.record import decode
from shared.runtime.readmodel.database import Database
from shared.runtime.readmodel.statements import SQL
from shared.runtime.retention.families import Families

BATCH = 200        # executions looked at in one step, and purged in one
ROWS = 5_000       # deleted in a transaction
LOCK = 0x6E6F6574_6B656570  # "noetkeep": one projector's statement at a time
DETAILS = ("step_run", "iteration", "loop", "task_run", "ctx", "record_group")  # the last say what is left
DELETE = """
DELETE FROM noetl.{0} WHERE execution_id = ANY ($1) AND ctid = ANY (ARRAY(
    SELECT ctid FROM noetl.{0} WHERE execution_id = ANY ($1) LIMIT $2))
"""
EMPTIED = "UPDATE noetl.execution SET workload = NULL, result = NULL, result_ref = NULL WHERE execution_id = ANY ($1)"
NOTED = "INSERT INTO noetl.purged (execution_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING"
REPEATED = "DELETE FROM noetl.repeated WHERE execution_id = ANY ($1)"
FIRST = datetime(1, 1, 1, tzinfo=UTC)


class Place(Struct, frozen=True):
    """Up to where rows were looked at."""

    finished_at: datetime = FIRST
    execution_id: str = ""


async def unseen(bus: JetStreamBus, database: Database, partitions: int, before: float) -> str:
    """Where the read model has not seen the log up to a time; empty when it has."""
    rows = await database.run(lambda connection: connection.fetch("SELECT partition, seq FROM noetl.cursor"))
    cursors = {row["partition"]: row["seq"] for row in rows}
    for partition in range(partitions):
        stream, after = topology.events_stream(partition), cursors.get(partition, 0)
        found = await stored_messages.first(bus, stream, f"{subjects.EVENTS}.>", after)
        if found is not None and found.at < before:
            return f"the read model is behind the log in partition {partition}"
    return ""


class Page(Struct, frozen=True):
    """Executions with results, and whether there are more behind them."""

    executions: list[str]
    next: int


async def with_results(bus: JetStreamBus, offset: int) -> Page:
    body = {"subjects_filter": f"{subjects.RESULTS}.>", "offset": offset}
    answer = await bus.requests.api(api.stream_info(topology.RESULTS), body)
    found = answer["state"].get("subjects") or {}
    executions = dict.fromkeys(subject.split(".")[2] for subject in found)
    after = offset + len(found)
    return Page(list(executions), after if found and after < int(answer.get("total", 0)) else 0)


class Sweep:
    """`families` are those of the pass."""

    def __init__(self, bus: JetStreamBus, database: Database, partitions: int, families: Families) -> None:
        self._bus, self._database, self._partitions, self.families = bus, database, partitions, families

    async def results(self, executions: Sequence[str], before: datetime, seen: float) -> int:
        """Of some executions that have results, those that are old enough lose them. How many messages went.
        Unavailable when the read model, asked after the choice was made, has not seen the log up to the time `seen`:
        a rebuild may have begun meanwhile."""
        choose = partial(_choose, families=self.families, executions=executions, before=before)
        chosen = await self._database.run(choose)
        if chosen and (why := await unseen(self._bus, self._database, self._partitions, seen)):
            raise Unavailable(why)
        return sum([await self._emptied(each) for each in await self._over(chosen)])

    async def _over(self, executions: Sequence[str]) -> list[str]:
        """By their logs."""
        found: list[str] = []
        for at in range(0, len(executions), BATCH):
            batch = executions[at : at + BATCH]
            if not all(await asyncio.gather(*map(self._is_over, batch))):
                return []  # the read model is of another log
            found += batch
        return found

    async def _is_over(self, execution_id: str) -> bool:
        """Its last decision tells. A copy that is behind may only say that it is not."""
        if not EXECUTION_ID.fullmatch(execution_id):
            return False
        partition = subjects.partition_of(execution_id, self._partitions)
        subject = subjects.event(partition, execution_id, "router")
        last = await stored_messages.last(self._bus, topology.events_stream(partition), subject)
        if last is None:
            return False
        record = decode(Message(last.subject, last.data, last.seq), self._partitions)
        return any(isinstance(event, PlaybookProcessed) for event in record.events)

    async def _emptied(self, execution_id: str) -> int:
        body = {"filter": f"{subjects.RESULTS}.{execution_id}.>"}
        return int((await self._bus.requests.api(api.stream_purge(topology.RESULTS), body))["purged"])

    async def rows(self, place: Place, before: datetime) -> tuple[Place | None, int]:
        """How far it has come, None at the end; and how many rows went."""
        found = await self._database.run(partial(_old, place=place, before=before))
        if not found:
            return None, 0
        there = [row["execution_id"] for row in found if row["there"]]
        old = await self._database.run(partial(_family, families=self.families, candidates=there, before=before))
        removed = 0
        for at in range(0, len(old), BATCH):
            removed += await self._remove(old[at : at + BATCH])
        return Place(found[-1]["finished_at"], found[-1]["execution_id"]), removed

    async def _remove(self, batch: Sequence[str]) -> int:
        await self._database.run(partial(_note, batch=batch))
        removed = 0
        for table in DETAILS:
            while deleted := await self._database.run(partial(delete, table=table, batch=batch)):
                removed += deleted
        return removed


async def _choose(
    connection: asyncpg.Connection, families: Families, executions: Sequence[str], before: datetime
) -> list[str]:
    known = [row["execution_id"] for row in await connection.fetch(SQL["known_old"], list(executions), before)]
    return await families.old(connection, known, before)


async def _old(connection: asyncpg.Connection, place: Place, before: datetime) -> list[asyncpg.Record]:
    args = (before, place.finished_at, place.execution_id, BATCH)
    found: list[asyncpg.Record] = await connection.fetch(SQL["old_executions"], *args)
    return found


async def _family(
    connection: asyncpg.Connection, families: Families, candidates: Sequence[str], before: datetime
) -> list[str]:
    return await families.old(connection, candidates, before)


async def _note(connection: asyncpg.Connection, batch: Sequence[str]) -> None:
    async with connection.transaction():
        await connection.execute(NOTED, batch)
        await connection.execute(EMPTIED, batch)
        await connection.execute(REPEATED, batch)


async def delete(connection: asyncpg.Connection, table: str, batch: Sequence[str]) -> int:
    """0 at the end. Two projectors take turns."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        done: str = await connection.execute(DELETE.format(table), batch, ROWS)
        return int(done.rpartition(" ")[2])
