"""DuckDB as an end of a transfer: on a thread, written many rows a statement."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec

from shared.tools.base.guard import BadCall
from shared.tools.base.threads import on_thread
from shared.tools.duckdb import guard as duck_guard
from shared.tools.duckdb.guard import MEMORY, Guard, TempFolder
from shared.tools.duckdb.session import Session
from shared.tools.duckdb.tool import LOCKED, refused
from shared.tools.sql.call import plain
from shared.tools.sql.rows import Batch, Query, key_columns, last_of_each, row_query, target_columns
from shared.tools.sql.text import quote, split, with_texts
from shared.tools.transfer.ends import End, Into, into
from shared.tools.transfer.postgres import on_conflict

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STATEMENT_PARAMS = 5000  # of one insert; more rows are more statements
T = TypeVar("T")
_BOUND = (type(None), bool, int, float, str, bytes, Decimal, date, time, timedelta, UUID, list, Mapping)
_KEY = """SELECT unnest(constraint_column_names) FROM duckdb_constraints()
WHERE constraint_type = 'PRIMARY KEY' AND table_oid = (
    SELECT table_oid FROM duckdb_tables() WHERE table_name = ? AND schema_name = coalesce(?, current_schema())
    AND database_name = coalesce(?, current_database()))"""


class _Opened:
    def __init__(self, end: End, threads: Executor, guard: Guard) -> None:
        import duckdb

        given = str(end.config.get("database") or MEMORY)
        self._lib = duckdb
        self._end = end
        self._threads = threads
        self._guard = guard
        self._database = given if given == MEMORY else guard.file(f"{end.name}.database", given)
        self._session: Session | None = None
        self._temp: TempFolder | None = None
        self._connection: DuckDBPyConnection | None = None
        self._stopped = False

    async def _do(self, work: "Callable[[DuckDBPyConnection], T]") -> T:
        def guarded() -> T:
            connection = self._connection or self._open()
            if self._stopped:
                raise self._lib.InterruptException("stopped")
            return work(connection)

        with self._told():
            return await on_thread(self._threads, guarded, self._stop)

    def _open(self) -> "DuckDBPyConnection":
        self._temp = TempFolder(self._guard.temp_folder) if self._database == MEMORY else None
        texts = (*self._guard.opening(temp=self._temp.path if self._temp else None), *self._guard.closing())

        def prepare(connection: "DuckDBPyConnection") -> None:
            for text in texts:
                connection.execute(text)

        session = Session(self._lib, self._database, prepare, texts)
        self._connection = session.open(lambda: self._stopped)
        self._session = session
        return self._connection

    def _stop(self) -> None:
        self._stopped = True
        if self._connection is not None:
            with contextlib.suppress(self._lib.Error):
                self._connection.interrupt()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._lib.Error as error:
            told = refused(str(error))
            text = str(told.error["message"]) if told and told.error else str(error)
            raise self._end.failed("duckdb", text, retryable=LOCKED in str(error).lower()) from None

    async def close(self) -> None:
        """Closing undoes what is not committed."""
        session, self._session, self._connection = self._session, None, None
        if session is not None:
            await on_thread(self._threads, session.close, lambda: None)
        if self._temp is not None:
            self._temp.remove()


class DuckSource(_Opened):
    def __init__(self, end: End, threads: Executor, guard: Guard) -> None:
        super().__init__(end, threads, guard)
        found = [with_texts(each) for each in split(*(end.text() or ("", [])), end.texts())]
        if len(found) != 1:
            raise BadCall("source.query must be one statement that gives rows")
        duck_guard.check([found[0].text])
        self._statement = found[0]

    async def batches(self, size: int, _wanted: Sequence[str] | None) -> AsyncGenerator[Batch, None]:
        statement = self._statement
        described = await self._do(lambda connection: connection.execute(
            statement.text, statement.params or None).description or [])
        fields = [str(column[0]) for column in described]
        json = [str(column[1]) == "JSON" for column in described]
        while rows := await self._do(lambda connection: connection.fetchmany(size)):
            yield Batch(fields, [[_value(value, is_json) for value, is_json in zip(row, json, strict=True)]
                                 for row in rows])


def _value(value: Any, is_json: bool) -> Any:
    return msgspec.json.decode(value) if is_json and value is not None else value


class DuckTarget(_Opened):
    def __init__(self, end: End, threads: Executor, guard: Guard) -> None:
        super().__init__(end, threads, guard)
        if self._database == MEMORY:
            raise BadCall("target.database is needed: the path of a database file")
        self._into: Into = into(end)
        duck_guard.check([self._into.query[0]] if self._into.query else [])
        self._query: Query | None = None
        self._columns: list[str] = []
        self._texts: list[bool] = []
        self._key: list[str] = []

    async def begin(self) -> None:
        def start(connection: "DuckDBPyConnection") -> None:
            connection.begin()
            if self._into.mode == "replace":
                connection.execute(f"DELETE FROM {self._table()}")

        await self._do(start)

    def _table(self) -> str:
        return ".".join(quote(part) for part in self._into.table.split("."))

    async def write(self, columns: list[str], rows: list[list[Any]]) -> None:
        await self._do(lambda connection: self._write(connection, columns, rows))

    def _write(self, connection: "DuckDBPyConnection", columns: list[str], rows: list[list[Any]]) -> None:
        if self._into.query is not None:
            self._query = self._query or row_query(*self._into.query, len(columns), numbered=True)
            for row in rows:
                connection.execute(self._query.text, self._query.row(row))
            return
        if not self._columns:
            self._look(connection, columns)
        if self._key:
            rows = last_of_each(rows, self._columns, self._key)
        ending = on_conflict(self._columns, self._key) if self._key else ""
        names, place = ", ".join(map(quote, self._columns)), f"({', '.join('?' * len(self._columns))})"
        size = max(1, STATEMENT_PARAMS // len(self._columns))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            places = ", ".join([place] * len(part))
            connection.execute(f"INSERT INTO {self._table()} ({names}) VALUES {places}{ending}",
                               [_bindable(value, text) for row in part
                                for value, text in zip(row, self._texts, strict=True)])

    def _look(self, connection: "DuckDBPyConnection", wanted: list[str]) -> None:
        """The table's columns, which of them hold documents as text, and its key."""
        described = connection.execute(f"SELECT * FROM {self._table()} LIMIT 0").description or []
        types = {str(column[0]): str(column[1]) for column in described}
        self._columns = target_columns(wanted, list(types))
        self._texts = [types[name] in ("JSON", "VARCHAR", "STRING") for name in self._columns]
        if self._into.mode == "upsert":
            *place, table = self._into.table.split(".")
            schema, database = [None, None, *place][:-3:-1]
            primary = [str(row[0]) for row in connection.execute(_KEY, [table, schema, database]).fetchall()]
            self._key = key_columns(self._into.key, self._columns, primary)

    async def commit(self) -> None:
        await self._do(lambda connection: connection.commit())


def _bindable(value: Any, text: bool) -> Any:
    """Documents as JSON: rows with different keys would not be of one type."""
    if text and isinstance(value, (Mapping, list)):
        return msgspec.json.encode(plain(value)).decode()
    return value if isinstance(value, _BOUND) else str(value)
