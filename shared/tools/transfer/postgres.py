"""PostgreSQL as an end of a transfer: read through a cursor, written by pipelined statements."""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shared.tools.base.guard import BadCall
from shared.tools.postgres.connections import Busy, Pools, place, target, waiting
from shared.tools.postgres.params import WrongType, convert
from shared.tools.postgres.tool import DATA_EXCEPTION, RETRYABLE_CLASSES, RETRYABLE_STATES, codes
from shared.tools.postgres.typed import Typed
from shared.tools.sql.rows import Batch, Query, key_columns, row_query, target_columns
from shared.tools.sql.text import quote, split
from shared.tools.transfer.ends import End, Into, into

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.prepared_stmt import PreparedStatement
    from asyncpg.transaction import Transaction

_KEY = """SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = $1::text::regclass AND i.indisprimary ORDER BY array_position(i.indkey::int2[], a.attnum)"""


class _Connected:
    """A connection of the end's pool, held from `connect` to `close`."""

    def __init__(self, end: End, pools: Pools) -> None:
        import asyncpg

        self._lib = asyncpg
        self._end = end
        self._pools = pools
        self._where = target(end.call)
        self._stack = contextlib.AsyncExitStack()
        self._connection: PoolConnectionProxy | None = None

    async def connect(self) -> "PoolConnectionProxy":
        with self.told():
            lent = self._pools.connection(self._where, waiting(self._end.call))
            self._connection = connection = await self._stack.enter_async_context(lent)
        return connection

    async def close(self) -> None:
        self._connection = None
        await self._stack.aclose()

    def cut(self) -> None:
        """A server that is gone does not answer a rollback either."""
        if self._connection is not None:
            self._connection.terminate()

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """The library's errors as failures of this end."""
        kind = "postgres" if self._connection is not None else "connect"
        try:
            yield
        except WrongType as error:
            raise self._end.failed("postgres", str(error), pg=codes(DATA_EXCEPTION)) from None
        except Busy as error:
            raise self._end.failed("connect", self._at(str(error)), retryable=True, pg=codes(None)) from None
        except self._lib.PostgresError as error:
            state = error.sqlstate or ""
            retryable = state in RETRYABLE_STATES or state.startswith(RETRYABLE_CLASSES)
            message = str(getattr(error, "message", None) or error)
            if getattr(error, "severity", None) is None:  # asyncpg's own: the value comes after the colon
                message = str(error).partition(":")[0]
            message = message if kind == "postgres" else self._at(message)
            raise self._end.failed(kind, message, retryable=retryable, pg=codes(state or None)) from None
        except self._lib.exceptions.ClientConfigurationError:
            raise BadCall(f"{self._end.name}: the connection string or credential cannot be used") from None
        except (TimeoutError, OSError, self._lib.InterfaceError, self._lib.InternalClientError) as error:
            message = getattr(error, "strerror", None) or str(error) or "the server did not answer in time"
            raise self._end.failed("connect", self._at(message), retryable=True, pg=codes(None)) from None

    def _at(self, message: str) -> str:
        return f"{place(self._where)}: {message}"


class PostgresSource(_Connected):
    def __init__(self, end: End, pools: Pools) -> None:
        super().__init__(end, pools)
        found = split(*(end.text() or ("", [])), end.texts())
        if len(found) != 1:
            raise BadCall("source.query must be one statement that gives rows")
        self._statement = found[0]

    async def batches(self, size: int, _wanted: Sequence[str] | None) -> AsyncGenerator[Batch, None]:
        connection = await self.connect()
        with self.told():
            async with connection.transaction(readonly=True):
                prepared, values = await Typed(connection).prepare(self._statement)
                fields = [attribute.name for attribute in prepared.get_attributes()]
                if not fields:
                    raise BadCall("source.query gives no rows")
                cursor = await prepared.cursor(*values)
                while rows := await cursor.fetch(size):
                    yield Batch(fields, [tuple(row) for row in rows])


class PostgresTarget(_Connected):
    def __init__(self, end: End, pools: Pools) -> None:
        super().__init__(end, pools)
        self._into: Into = into(end)
        self._transaction: Transaction | None = None
        self._query: Query | None = None
        self._prepared: PreparedStatement[Any] | None = None
        self._types: tuple[str, ...] = ()

    async def begin(self) -> None:
        connection = await self.connect()
        with self.told():
            transaction = connection.transaction()
            await transaction.start()
            self._transaction = transaction
            if self._into.mode == "replace":
                await connection.execute(f"DELETE FROM {_table(self._into)}")

    async def write(self, columns: list[str], rows: list[list[Any]]) -> None:
        with self.told():
            prepared = self._prepared or await self._prepare(columns)
            if self._query is not None:
                rows = [self._query.row(row) for row in rows]
            await prepared.executemany([convert(row, self._types) for row in rows])

    async def _prepare(self, columns: list[str]) -> "PreparedStatement[Any]":
        assert self._connection is not None
        if self._into.query is not None:
            self._query = row_query(*self._into.query, len(columns), numbered=True)
            text = self._query.text.strip().removesuffix(";")
        else:
            text = await self._insert(columns)
        self._prepared = await self._connection.prepare(text)
        self._types = tuple(str(kind.name) for kind in self._prepared.get_parameters())
        return self._prepared

    async def _insert(self, wanted: list[str]) -> str:
        assert self._connection is not None
        table = _table(self._into)
        known = (await self._connection.prepare(f"SELECT * FROM {table}")).get_attributes()
        columns = target_columns(wanted, [attribute.name for attribute in known])
        names, places = ", ".join(map(quote, columns)), ", ".join(f"${i}" for i in range(1, len(columns) + 1))
        text = f"INSERT INTO {table} ({names}) VALUES ({places})"
        if self._into.mode != "upsert":
            return text
        primary = [row[0] for row in await self._connection.fetch(_KEY, table)]
        return text + on_conflict(columns, key_columns(self._into.key, columns, primary))

    async def commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        assert transaction is not None
        with self.told():
            await transaction.commit()

    async def close(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with contextlib.suppress(Exception):  # a connection that is lost has nothing to undo
                await transaction.rollback()
        await super().close()


def on_conflict(columns: Sequence[str], key: Sequence[str]) -> str:
    """The end of an insert that updates rows whose key is there; PostgreSQL and DuckDB say it alike."""
    rest = [f"{quote(column)} = EXCLUDED.{quote(column)}" for column in columns if column not in key]
    action = f"DO UPDATE SET {', '.join(rest)}" if rest else "DO NOTHING"
    return f" ON CONFLICT ({', '.join(map(quote, key))}) {action}"


def _table(where: Into) -> str:
    return ".".join(quote(part) for part in where.table.split("."))
