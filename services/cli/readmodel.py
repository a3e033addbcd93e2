"""What noetlctl reads from PostgreSQL: the recent executions."""

from typing import Any

import asyncpg

from services.cli.exits import CliError

CONNECT_S = 5.0
RECENT = """
SELECT execution_id, path, version, status, started_at, finished_at
FROM noetl.execution ORDER BY started_at DESC, execution_id LIMIT $1
"""
STATUS = "SELECT status FROM noetl.execution WHERE execution_id = $1"


async def recent(dsn: str, limit: int) -> list[dict[str, Any]]:
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise CliError(f"no answer from PostgreSQL: {error or 'timed out'} (is `noetlctl up` running?)") from None
    try:
        return [dict(row) for row in await connection.fetch(RECENT, limit)]
    except asyncpg.UndefinedTableError:
        return []  # the projector has not been there yet
    finally:
        await connection.close()


async def status_of(dsn: str, execution_id: str) -> str | None:
    """None while there is no database yet, or the projector has not seen the execution."""
    if not dsn:
        return None
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return None
    try:
        status: str | None = await connection.fetchval(STATUS, execution_id)
        return status
    except asyncpg.UndefinedTableError:
        return None
    finally:
        await connection.close()
