"""What noetlctl reads from PostgreSQL: executions by what they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import asyncpg
import msgspec

from services.cli.console.exits import CliError
from services.cli.console.progress import patiently
from services.cli.executions.selection import Selection, where

CONNECT_S = 5.0
FOUND = """
SELECT execution_id, path, version, status, started_at, finished_at, labels, parent_id
FROM noetl.execution WHERE {where} ORDER BY {order}, execution_id LIMIT {limit} OFFSET {offset}
"""
# What a list may be sorted by; the first way round is the usual one, the second that of --reverse.
ORDERS = {
    "started": ("started_at DESC", "started_at"),
    "ended": ("finished_at DESC NULLS LAST", "finished_at NULLS LAST"),
    "took": ("COALESCE(finished_at, now()) - started_at DESC", "COALESCE(finished_at, now()) - started_at"),
    "path": ("path, started_at DESC", "path DESC, started_at DESC"),
    "status": ("status, started_at DESC", "status DESC, started_at DESC"),
}
CURSORS = "SELECT partition, seq FROM noetl.cursor"
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


class Away(CliError):
    """The read model cannot be asked. The log can."""


def _no_answer(error: Exception) -> Away:
    return Away(f"no answer from PostgreSQL: {words(error)} (is `noetlctl up` running? executions do not need it: "
                "`noetlctl why --all` and `noetlctl get ID` read the log)")


def words(error: Exception) -> str:
    """In one line: PostgreSQL puts details and hints on lines of their own."""
    return "; ".join(str(error).splitlines()) or "timed out"


class Part(NamedTuple):
    """Which part of a list is wanted, and how it is sorted."""

    limit: int
    offset: int = 0
    order: str = "started"
    reverse: bool = False


async def executions(dsn: str, selection: Selection, part: Part | int) -> list[dict[str, Any]]:
    """The latest first, unless the part says otherwise."""
    part = Part(part) if isinstance(part, int) else part
    if not dsn:
        raise Away("the list comes from PostgreSQL: give the context its --postgres-dsn, set NOETL_POSTGRES_DSN, "
                       "or name an execution")
    condition, values = where(selection)
    async with connected(dsn) as connection:
        try:
            order = ORDERS[part.order][part.reverse]
            asked = connection.fetch(
                FOUND.format(where=condition, order=order, limit=int(part.limit), offset=int(part.offset)), *values)
            found = await patiently(asked, "asking PostgreSQL")
        except asyncpg.UndefinedTableError:
            return []  # the projector has not been there yet
        except asyncpg.UndefinedColumnError:
            raise CliError("the read model is of an earlier version: start a projector of this one") from None
    return [{**dict(row), "labels": msgspec.json.decode(row["labels"] or "{}")} for row in found]


async def cursors(dsn: str) -> dict[int, int]:
    """Up to which record each partition is in the read model."""
    async with connected(dsn) as connection:
        try:
            return {row["partition"]: row["seq"] for row in await connection.fetch(CURSORS)}
        except asyncpg.UndefinedTableError:
            return {}


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
