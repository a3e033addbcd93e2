"""The read model as plain values: from the database, and from a pure fold of the log."""

from typing import Any

import asyncpg
import msgspec

from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows, ctx_values
from shared.answers.readmodel.tables import tables
from tests.integration.projector.history import Log
from tests.support.waiting import until

TABLES = ("execution", "event", "step_run", "iteration", "loop", "task_run", "ctx")
RENAMED = {"step_run_id": "run_id", "updated_seq": "seq"}
Table = list[tuple[Any, ...]]


async def projected(connection: asyncpg.Connection) -> int:
    """How many messages."""
    return int(await connection.fetchval("SELECT coalesce(sum(seq), 0) FROM noetl.cursor"))


async def until_projected(connection: asyncpg.Connection, count: int, within_s: float) -> None:
    await until(lambda: projected(connection), f"{count} messages projected", within_s, so=lambda n: n >= count)


async def columns_of(connection: asyncpg.Connection, table: str) -> dict[str, str]:
    query = """SELECT column_name, data_type FROM information_schema.columns
               WHERE table_schema = 'noetl' AND table_name = $1 ORDER BY ordinal_position"""
    return {row["column_name"]: row["data_type"] for row in await connection.fetch(query, table)}


async def dump(connection: asyncpg.Connection, *extra: str) -> dict[str, Table]:
    dumped = {}
    for table in (*TABLES, *extra):
        columns = await columns_of(connection, table)
        rows = await connection.fetch(f"SELECT * FROM noetl.{table}")
        dumped[table] = _sorted([_plain(columns, dict(row)) for row in rows])
    return dumped


async def folded(connection: asyncpg.Connection, log: Log) -> dict[str, Table]:
    """What the tables must hold, by folding each partition as a whole."""
    rows = Rows()
    for partition in range(log.partitions):
        for message in log.messages(partition):
            fold(rows, read(message, log.partitions))
    runs = rows.runs.values()
    sources: dict[str, list[Any]] = {
        "execution": list(rows.executions.values()),
        "step_run": [run for run in runs if run.iteration < 0],
        "iteration": [run for run in runs if run.iteration >= 0],
        "loop": list(rows.loops.values()),
        "task_run": list(rows.tasks.values()),
    }
    wanted: dict[str, Table] = {}
    for table, found in sources.items():
        columns = await columns_of(connection, table)
        values = [{name: getattr(row, RENAMED.get(name, name)) for name in columns} for row in found]
        wanted[table] = _sorted([_plain(columns, row) for row in values])
    columns = await columns_of(connection, "event")
    wanted["event"] = _sorted([_plain(columns, row) for row in tables(rows)["event"]])
    columns = await columns_of(connection, "ctx")
    values = [dict(zip(columns, ctx_values(row), strict=True)) for row in rows.ctx.values()]
    wanted["ctx"] = _sorted([_plain(columns, row) for row in values])
    return wanted


def _plain(columns: dict[str, str], row: dict[str, Any]) -> tuple[Any, ...]:
    def value(name: str) -> Any:
        found = row[name]
        return msgspec.json.decode(found) if columns[name] == "jsonb" and found is not None else found

    return tuple(value(name) for name in columns)


def _sorted(rows: Table) -> Table:
    return sorted(rows, key=repr)
