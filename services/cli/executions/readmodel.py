"""What noetlctl reads from PostgreSQL: executions by what they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from services.cli.console.exits import CliError
from services.cli.console.progress import patiently
from services.cli.executions.selection import Selection, where

CONNECT_S = 5.0
FOUND = """
SELECT execution_id, path, version, status, started_at, finished_at, labels, parent_id
FROM noetl.execution WHERE {where} ORDER BY started_at DESC, execution_id LIMIT {limit}
"""
STATUS = "SELECT status FROM noetl.execution WHERE execution_id = $1"


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """With one clear error when nobody answers, or not any more."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise _no_answer(error) from None
    try:
        yield connection
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last one: asyncpg is asked while it finds out that the server has gone.
        if not connection.is_closed() and not isinstance(error, asyncpg.InternalClientError):
            raise
        connection.terminate()
        raise _no_answer(error) from None
    finally:
        await connection.close()


def _no_answer(error: Exception) -> CliError:
    return CliError(f"no answer from PostgreSQL: {words(error)} (is `noetlctl up` running?)")


def words(error: Exception) -> str:
    """In one line: PostgreSQL puts details and hints on lines of their own."""
    return "; ".join(str(error).splitlines()) or "timed out"


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


class Watch:
    """The status of an execution, asked for again and again over one connection."""

    def __init__(self) -> None:
        self._connection: asyncpg.Connection | None = None

    async def status_of(self, dsn: str, execution_id: str) -> str | None:
        """None while there is no database yet, or the projector has not seen the execution."""
        if not dsn:
            return None
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(dsn, timeout=CONNECT_S)
            status: str | None = await self._connection.fetchval(STATUS, execution_id)
            return status
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return None  # also when the projector has not made its tables yet

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
