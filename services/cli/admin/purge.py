"""What a purge does to the broker and to PostgreSQL. Rows go last, so that one that was cut short is found again."""

from collections.abc import Sequence
from datetime import UTC, datetime

import asyncpg
from msgspec import Struct

from services.cli.admin import retention
from services.cli.admin.retention import Choice
from services.cli.console.exits import CliError
from shared.bus import api, stored_messages, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.kv import stream_of
from shared.events import subjects
from shared.runtime.retention.sweep import DETAILS
from shared.runtime.stores.execution_status import standings

BATCH = 200
OLD = """
SELECT execution_id, NOT EXISTS (SELECT FROM noetl.purged p WHERE p.execution_id = e.execution_id)
    OR EXISTS (SELECT FROM noetl.record_group r WHERE r.execution_id = e.execution_id) AS there  -- of a late record
FROM noetl.execution e WHERE status = ANY($1) AND finished_at < $2 ORDER BY finished_at, execution_id
"""
RELATED = """
SELECT execution_id, parent_id AS other FROM noetl.execution WHERE parent_id IS NOT NULL
UNION ALL
SELECT execution_id, rerun_of FROM noetl.execution WHERE rerun_of IS NOT NULL
"""
COUNTED = "SELECT count(*) FROM noetl.{} WHERE execution_id = ANY($1)"
DELETED = "DELETE FROM noetl.{} WHERE execution_id = ANY($1)"
EMPTIED = "UPDATE noetl.execution SET workload = NULL, result = NULL, result_ref = NULL WHERE execution_id = ANY($1)"
NOTED = "INSERT INTO noetl.purged (execution_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING"


class Removed(Struct):
    results: int = 0
    snapshots: int = 0
    rows: int = 0
    dead_letters: int = 0


class Purge:
    def __init__(self, bus: JetStreamBus, connection: asyncpg.Connection, partitions: int, before: float) -> None:
        self._bus, self._connection, self._partitions, self._before = bus, connection, partitions, before

    async def choose(self, statuses: Sequence[str], limit: int) -> Choice:
        """From the read model, and only what the log says is over as well."""
        try:
            return await self._choose(statuses, limit)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
            raise CliError("the read model is of an earlier version: start a projector of this one") from None

    async def _choose(self, statuses: Sequence[str], limit: int) -> Choice:
        await self._refuse_old_read_model()
        before = datetime.fromtimestamp(self._before, UTC)
        rows = await self._connection.fetch(OLD, list(statuses), before)
        old = [row["execution_id"] for row in rows if row["there"]]
        gone = frozenset(row["execution_id"] for row in rows if not row["there"])
        related = [(row["execution_id"], row["other"]) for row in await self._connection.fetch(RELATED)]
        over = [each for batch in _batches(old) for each in await self._over(batch)]
        return retention.choose(over, related, limit, gone)

    async def _refuse_old_read_model(self) -> None:
        """A relation that is older than the time asked for must have been seen."""
        rows = await self._connection.fetch("SELECT partition, seq FROM noetl.cursor")
        cursors = {row["partition"]: row["seq"] for row in rows}
        for partition in range(self._partitions):
            stream, after = topology.events_stream(partition), cursors.get(partition, 0)
            unseen = await stored_messages.first(self._bus, stream, f"{subjects.EVENTS}.>", after)
            if unseen is not None and unseen.at < self._before:
                raise CliError(f"the read model is behind the log in partition {partition}: wait for the projector")

    async def _over(self, executions: Sequence[str]) -> list[str]:
        standing = await standings(self._bus, executions, self._partitions)
        return [each for each in executions if standing[each] == "over"]

    async def count(self, executions: Sequence[str]) -> dict[str, int]:
        removed = Removed(dead_letters=await self._old_letters())
        for batch in _batches(executions):
            for each in batch:
                removed.results += await self._held(topology.RESULTS, f"{subjects.RESULTS}.{each}.>")
                for stream, subject in _snapshots(each):
                    removed.snapshots += await self._held(stream, subject)
            for table in DETAILS:
                removed.rows += int(await self._connection.fetchval(COUNTED.format(table), batch))
        return _plain(removed)

    async def remove(self, executions: Sequence[str]) -> dict[str, int]:
        removed = Removed()
        for batch in _batches(executions):
            for each in batch:
                removed.results += await self._emptied(topology.RESULTS, f"{subjects.RESULTS}.{each}.>")
                for stream, subject in _snapshots(each):
                    removed.snapshots += await self._emptied(stream, subject)
            removed.rows += await self._delete(batch)
        removed.dead_letters = await self._purge_letters()
        return _plain(removed)

    async def _delete(self, batch: Sequence[str]) -> int:
        """One transaction. The row of the execution stays: a late record must find how it ended."""
        deleted = 0
        async with self._connection.transaction():
            for table in DETAILS:
                deleted += int((await self._connection.execute(DELETED.format(table), batch)).rpartition(" ")[2])
            await self._connection.execute(DELETED.format("repeated"), batch)
            await self._connection.execute(EMPTIED, batch)
            await self._connection.execute(NOTED, batch)
        return deleted

    async def _held(self, stream: str, subject: str) -> int:
        info = await self._bus.requests.api(api.stream_info(stream), {"subjects_filter": subject})
        return sum((info["state"].get("subjects") or {}).values())

    async def _emptied(self, stream: str, subject: str) -> int:
        answer = await self._bus.requests.api(api.stream_purge(stream), {"filter": subject})
        return int(answer["purged"])

    async def _purge_letters(self) -> int:
        young = await stored_messages.since(self._bus, topology.DEAD, self._before)
        body = {"seq": young.seq} if young is not None else None
        return int((await self._bus.requests.api(api.stream_purge(topology.DEAD), body))["purged"])

    async def _old_letters(self) -> int:
        state = (await self._bus.requests.api(api.stream_info(topology.DEAD)))["state"]
        young = await stored_messages.since(self._bus, topology.DEAD, self._before)
        return int(state["messages"]) - (1 + young.more if young is not None else 0)


def _snapshots(execution_id: str) -> list[tuple[str, str]]:
    """The entry of an execution, and the parts of a large one."""
    buckets = (topology.CTX, topology.LOOPS)
    keys = (execution_id, f"{execution_id}.>")
    return [(stream_of(bucket), subjects.key(bucket, key)) for bucket in buckets for key in keys]


def _batches(executions: Sequence[str]) -> list[list[str]]:
    return [list(executions[at : at + BATCH]) for at in range(0, len(executions), BATCH)]


def _plain(removed: Removed) -> dict[str, int]:
    return {name: getattr(removed, name) for name in removed.__struct_fields__}
