"""A read model of an earlier version: what is in it goes, and comes back from the log."""

import asyncpg
import pytest
import structlog

from shared.runtime.readmodel.schema import migrate, migrations
from tests.integration.projector.history import random_log
from tests.integration.projector.tables import dump, folded
from tests.integration.projector.test_service import all_projected, serving

EVENTS = """
INSERT INTO noetl.event VALUES ('old', 'router-1', 'workflow.started', now(), 1, 'server', 'workflow', 'old',
    'in_progress', NULL, NULL, 'f', NULL, 0, 1, '{}');
"""
RECORDS = """
INSERT INTO noetl.record (seq, n, ts, partition, execution_id, writer, events)
    VALUES (1, 1, now(), 0, 'old', 'router', '[{"event_type": "workflow.started"}]');
"""
OLD = {5: EVENTS, 7: RECORDS}
LEFT = """
INSERT INTO noetl.cursor VALUES (0, 3), (1, 9999);
INSERT INTO noetl.execution (execution_id, partition, path, version, digest, status, started_at, updated_at, seq)
    VALUES ('old', 0, 'p', '', '', 'completed', now(), now(), 3);
INSERT INTO noetl.purged VALUES ('old');
"""


async def old_read_model(dsn: str, old: int) -> asyncpg.Connection:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE SCHEMA noetl")
    table = "CREATE TABLE noetl.schema_migration (version int PRIMARY KEY, name text, applied_at timestamptz)"
    await connection.execute(table)
    for version, file in sorted(migrations().items()):
        if version <= old:
            await connection.execute(file.text)
            await connection.execute("INSERT INTO noetl.schema_migration VALUES ($1, $2)", version, file.name)
    if old > 5:  # what a later one asks for of an execution is not of interest here
        for column in ("trace_id", "router_n", "scheduler_n", "controls"):
            await connection.execute(f"ALTER TABLE noetl.execution ALTER {column} DROP NOT NULL")
    await connection.execute(LEFT + OLD[old])
    return connection


@pytest.mark.parametrize("old", OLD)
async def test_rows_of_an_earlier_version_are_written_again_from_the_log(dsn: str, old: int) -> None:
    connection = await old_read_model(dsn, old)
    log = random_log(8)
    with structlog.testing.capture_logs() as said:
        async with serving(log, dsn):
            await all_projected(connection, log)
    assert await dump(connection) == await folded(connection, log)
    assert await connection.fetchval("SELECT count(*) FROM noetl.purged") == 0
    assert [line["event"] for line in said if line["log_level"] == "warning"] == ["projector.emptied"]
    await connection.close()


async def test_a_new_read_model_is_not_called_emptied(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    first, again = await migrate(connection), await migrate(connection)
    assert (len(first.names), first.emptied) == (len(migrations()), False)
    assert (again.names, again.emptied, again.later) == ([], False, False)
    await connection.close()
