"""The read model against the log: the same rows as a pure fold of what the log holds."""

import asyncio
from typing import Any

import asyncpg
import msgspec

from shared.bus import topology
from tests.chaos.driving.log import WITHIN_S, Log
from tests.integration.projector.tables import Table, columns_of, folded


async def check_projection(dsn: str, log: Log) -> None:
    """Waits until the projector has caught up, then compares every row of the log's executions."""
    connection = await asyncpg.connect(dsn)
    try:
        await _caught_up(connection, log)
        assert await connection.fetch("SELECT partition, seq, error FROM noetl.corrupt") == []
        for table, wanted in (await folded(connection, log)).items():
            found = await _rows(connection, table, list(log.histories))
            assert len(found) == len(wanted), f"table {table}"
            assert found == wanted, f"table {table}"
    finally:
        await connection.close()


async def _caught_up(connection: asyncpg.Connection, log: Log) -> None:
    await log.poll()
    last = {p: await log.bus.last_seq(topology.events_stream(p)) for p in range(log.partitions)}
    async with asyncio.timeout(WITHIN_S):
        while True:
            cursors = {row["partition"]: row["seq"] for row in await connection.fetch("SELECT * FROM noetl.cursor")}
            if all(cursors.get(partition, 0) >= seq for partition, seq in last.items()):
                return
            await asyncio.sleep(0.1)


async def _rows(connection: asyncpg.Connection, table: str, executions: list[str]) -> Table:
    columns = await columns_of(connection, table)
    query = f"SELECT * FROM noetl.{table} WHERE execution_id = ANY ($1)"
    rows = await connection.fetch(query, executions)
    return sorted((tuple(_value(columns[name], row[name]) for name in columns) for row in rows), key=repr)


def _value(kind: str, value: Any) -> Any:
    return msgspec.json.decode(value) if kind == "jsonb" and value is not None else value
