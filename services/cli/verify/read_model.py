"""The rows of executions in PostgreSQL beside those that their logs fold to."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

import asyncpg
from msgspec import Struct

from services.cli.verify.verdict import Projection, Verdict
from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows
from shared.answers.readmodel.tables import KEYS, differences, tables
from shared.answers.verify.verify import Violation
from shared.bus.ports import Message
from shared.errors import Corrupt

CONNECT_S = 5.0
POLL_S = 0.2
MAX_TOLD = 20  # differences of one execution
CURSOR = "SELECT seq FROM noetl.cursor WHERE partition = $1"
ASIDE = "SELECT seq, error FROM noetl.corrupt WHERE partition = $1 AND split_part(subject, '.', 4) = ANY ($2)"
PURGED = "SELECT execution_id, at FROM noetl.purged WHERE execution_id = ANY ($1)"
ROWS = {table: f"SELECT * FROM noetl.{table} WHERE execution_id = ANY ($1)" for table in KEYS}
Histories = Mapping[str, Sequence[Message]]


class Found(Struct, frozen=True):
    """The read model of some executions at one moment; `cursor` is how far it had got in the partition."""

    cursor: int
    rows: dict[str, dict[str, list[dict[str, Any]]]]
    aside: dict[int, str]
    purged: dict[str, datetime] = {}

    def of(self, execution_id: str) -> dict[str, list[dict[str, Any]]]:
        return self.rows.get(execution_id, {})

    def seen(self, execution_id: str) -> int:
        """The last record of the execution that is in it."""
        known = self.of(execution_id).get("execution")
        return int(known[0]["seq"]) if known else 0


class ReadModel:
    """One connection; `error` says why there is none."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection | None = None
        self.error = "" if dsn else "no database is known: set NOETL_POSTGRES_DSN"

    async def __aenter__(self) -> "ReadModel":
        if self._dsn:
            try:
                self._connection = await asyncpg.connect(self._dsn, timeout=CONNECT_S)
            except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                self.error = f"no answer from PostgreSQL: {str(error) or 'timed out'}"
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def found(self, partition: int, executions: Sequence[str]) -> Found | None:
        """What it holds of them, all at one moment; None, and an `error`, when it cannot be had."""
        if self._connection is None:
            return None
        try:
            async with self._connection.transaction(isolation="repeatable_read", readonly=True):
                return await self._found(self._connection, partition, list(executions))
        except asyncpg.UndefinedTableError:
            self.error = "the projector has not been there yet"
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self.error = f"no answer from PostgreSQL: {error}"
        return None

    async def _found(self, connection: asyncpg.Connection, partition: int, executions: list[str]) -> Found:
        cursor = int(await connection.fetchval(CURSOR, partition) or 0)
        aside = {row["seq"]: row["error"] for row in await connection.fetch(ASIDE, partition, executions)}
        rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for table, query in ROWS.items():
            for row in await connection.fetch(query, executions):
                rows.setdefault(row["execution_id"], {}).setdefault(table, []).append(dict(row))
        purged = {row["execution_id"]: row["at"] for row in await connection.fetch(PURGED, executions)}
        return Found(cursor, rows, aside, purged)

    async def caught_up(self, partition: int, seq: int, wait_s: float) -> bool:
        """Waits, for a while, until the partition is projected up to there."""
        until = asyncio.get_running_loop().time() + wait_s
        while (found := await self.found(partition, ())) is not None:
            if found.cursor >= seq:
                return True
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(POLL_S)
        return False


def compare(verdict: Verdict, partitions: int, messages: Sequence[Message], model: Found) -> None:
    """Adds to the verdict how the rows compare; the projector has been where the log was read to. It sets aside what
    is forged, as everybody does."""
    if verdict.execution_id in model.purged:
        day = model.purged[verdict.execution_id].date().isoformat()
        verdict.projection = Projection("unknown", reason=f"its rows were purged on {day} (noetlctl admin purge)")
        return
    rows, forged = Rows(), {violation.seq for violation in verdict.violations if violation.rule == "forged"}
    found = [
        Violation("projection", f"the projector set record {seq} aside: {error}", seq)
        for seq, error in model.aside.items() if seq not in forged
    ]
    for message in messages:
        if message.seq not in model.aside and message.seq not in forged:
            try:
                fold(rows, read(message, partitions))
            except Corrupt as error:
                found.append(Violation("projection", f"record {message.seq} cannot be projected: {error}", message.seq))
    wanted = tables(rows)
    differing = list(differences(wanted, model.of(verdict.execution_id)))
    found += [Violation("projection", str(each), verdict.last) for each in differing[:MAX_TOLD]]
    if len(differing) > MAX_TOLD:
        more = f"{len(differing) - MAX_TOLD} more values of the read model differ"
        found.append(Violation("projection", more, verdict.last))
    counts = {table: len(held) for table, held in wanted.items()}
    verdict.projection = Projection("different" if found else "same", sum(counts.values()), counts, "")
    if found:
        verdict.violated(*found)
