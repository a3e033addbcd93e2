"""What noetlctl reads from PostgreSQL: executions by what they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from services.cli.exits import CliError
from services.cli.progress import patiently
from services.cli.selection import Selection, where

CONNECT_S = 5.0
FOUND = """
SELECT execution_id, path, version, status, started_at, finished_at, labels, parent_id
FROM noetl.execution WHERE {where} ORDER BY started_at DESC, execution_id LIMIT {limit}
"""
STATUS = "SELECT status FROM noetl.execution WHERE execution_id = $1"


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """With one clear error when nobody answers."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise CliError(f"no answer from PostgreSQL: {error or 'timed out'} (is `noetlctl up` running?)") from None
    try:
        yield connection
    finally:
        await connection.close()


async def executions(dsn: str, selection: Selection, limit: int) -> list[dict[str, Any]]:
    """The latest first."""
    if not dsn:
        raise CliError("the list comes from PostgreSQL: give the context its --postgres-dsn, set NOETL_POSTGRES_DSN, "
                       "or name an execution")
    condition, values = where(selection)
    async with connected(dsn) as connection:
        try:
            asked = connection.fetch(FOUND.format(where=condition, limit=int(limit)), *values)
            found = await patiently(asked, "asking PostgreSQL")
        except asyncpg.UndefinedTableError:
            return []  # the projector has not been there yet
        except asyncpg.UndefinedColumnError:
            raise CliError("the read model is of an earlier version: start a projector of this one") from None
    return [{**dict(row), "labels": msgspec.json.decode(row["labels"] or "{}")} for row in found]


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
