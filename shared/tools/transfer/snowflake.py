"""Snowflake as an end of a transfer: fetched in batches, written many rows a statement."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from shared.tools.base.guard import BadCall, time_limit
from shared.tools.base.threads import on_thread
from shared.tools.snowflake import session as snowflake_session
from shared.tools.snowflake import text as snowflake_text
from shared.tools.snowflake import tool as snowflake
from shared.tools.snowflake.session import Session
from shared.tools.sql.rows import Batch, Query, key_columns, last_of_each, row_query, target_columns
from shared.tools.transfer.ends import End, EndFailed, Into, into

T = TypeVar("T")


class _Opened:
    def __init__(self, end: End, threads: Executor) -> None:
        self._lib = snowflake_session.library()
        self._end = end
        self._threads = threads
        arguments = snowflake_session.arguments(end.call.auth or {}, end.config)
        self._session = Session(self._lib, arguments, end.call.idempotency_key, time_limit(end.call))

    async def _do(self, work: Callable[[], T]) -> T:
        with self._told():
            return await on_thread(self._threads, work, self._session.stop)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._lib.errors.Error as error:
            found = snowflake.failure(error, self._session).error or {}
            raise self._end.failed(found.pop("kind"), found.pop("message"), retryable=found.pop("retryable"),
                                   details=found) from None

    async def close(self) -> None:
        with contextlib.suppress(EndFailed):
            await self._do(self._session.close)


class SnowflakeSource(_Opened):
    def __init__(self, end: End, threads: Executor) -> None:
        super().__init__(end, threads)
        found = snowflake_text.split(*(end.text() or ("", [])), end.texts())
        if len(found) != 1:
            raise BadCall("source.query must be one statement that gives rows")
        self._statement = found[0]

    async def batches(self, size: int, _wanted: Sequence[str] | None) -> AsyncGenerator[Batch, None]:
        cursor = await self._do(self._begin)
        fields = [str(column[0]) for column in cursor.description or ()]
        json = snowflake_session.json_columns(cursor)
        while rows := await self._do(lambda: cursor.fetchmany(size)):
            yield Batch(fields, snowflake_session.with_json(rows, json))

    def _begin(self) -> Any:
        self._session.open()
        return self._session.execute(self._statement.text, self._statement.params)


class SnowflakeTarget(_Opened):
    def __init__(self, end: End, threads: Executor) -> None:
        super().__init__(end, threads)
        self._into: Into = into(end)
        self._query: Query | None = None
        self._columns: list[str] = []
        self._json: list[bool] = []
        self._key: list[str] = []

    async def begin(self) -> None:
        await self._do(self._begin)

    def _begin(self) -> None:
        self._session.open()
        self._session.execute("BEGIN")
        if self._into.mode == "replace":  # TRUNCATE would commit
            self._session.execute(f"DELETE FROM {snowflake_text.table_name(self._into.table)}")

    async def write(self, columns: list[str], rows: list[list[Any]]) -> None:
        await self._do(lambda: self._write(columns, rows))

    def _write(self, columns: list[str], rows: list[list[Any]]) -> None:
        if self._into.query is not None:
            self._query = self._query or row_query(*self._into.query, len(columns), numbered=False)
            text = self._query.text.strip().removesuffix(";")
            self._session.execute_many(text, [self._query.row(row) for row in rows])
            return
        if not self._columns:
            self._look(columns)
        table, names, json = self._into.table, [_exact(name) for name in self._columns], self._json
        if self._key:
            rows = last_of_each(rows, self._columns, self._key)
            made = snowflake_text.merges(table, names, [_exact(name) for name in self._key], rows, json)
        else:
            made = snowflake_text.inserts(table, names, rows, json)
        for statement in made:
            self._session.execute(statement.text, statement.params)

    def _look(self, wanted: list[str]) -> None:
        """The table's columns, which of them are semi-structured, and its key."""
        table = snowflake_text.table_name(self._into.table)
        cursor = self._session.execute(f"SELECT * FROM {table} WHERE 1 = 0")
        known = [str(column[0]) for column in cursor.description]
        json = dict(zip(known, snowflake_session.json_columns(cursor), strict=True))
        self._columns = target_columns(wanted, known)
        self._json = [json[name] for name in self._columns]
        if self._into.mode == "upsert":
            primary = [] if self._into.key is not None else self._primary(table)
            self._key = key_columns(self._into.key, self._columns, primary)

    def _primary(self, table: str) -> list[str]:
        cursor = self._session.execute(f"SHOW PRIMARY KEYS IN TABLE {table}")
        places = {str(column[0]): i for i, column in enumerate(cursor.description)}
        rows = sorted(cursor.fetchall(), key=lambda row: int(row[places["key_sequence"]]))
        return [str(row[places["column_name"]]) for row in rows]

    async def commit(self) -> None:
        await self._do(lambda: self._session.execute("COMMIT"))


def _exact(name: str) -> str:
    """A column's own spelling, as a name that is not folded."""
    return '"' + name.replace('"', '""') + '"'
