"""`kind: postgres`: SQL over asyncpg, parameters bound, errors with their SQLSTATE in `outcome.pg.code`."""

import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call, Keep, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, flag, guarded
from shared.tools.postgres import connections as pg_pools
from shared.tools.postgres.params import WrongType
from shared.tools.postgres.typed import Typed
from shared.tools.scripts.loader import Scripts
from shared.tools.sql import call as sql_call
from shared.tools.sql.call import BATCH, ROW_LIMIT, Results, Rows, no_rows
from shared.tools.sql.text import TRANSACTION, Statement, inlined, unshared

if TYPE_CHECKING:
    from asyncpg import Connection, PostgresError
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.prepared_stmt import PreparedStatement

    AnyConnection = Connection | PoolConnectionProxy
    Work = Callable[[AnyConnection, list[Statement], Results], Awaitable[None]]

SPEC = ToolSpec(
    kind="postgres",
    doc="SQL on PostgreSQL. Result: {rows, row_count, columns}.",
    keys={
        **sql_call.KEYS,
        "auth": KeySpec("Credential: {dsn}, or {host, port, user, password, database}."),
        "connection": KeySpec("Connection string, instead of auth."),
        "dsn": KeySpec("The same as connection."),
        "with": KeySpec("Fields of the connection that stand instead of the credential's.", fields=pg_pools.WITH),
        "pool": KeySpec("The connections this task shares with others of the worker.", fields=pg_pools.POOL),
    },
    knobs={
        "pool_size": KeySpec("Connections per database and worker, 4 unless given. The same as pool.max_size."),
        "read_only": KeySpec("true: the statements are one transaction in which the server refuses to write."),
    },
    one_of=sql_call.ONE_OF,
    claims=True,
    reads=lambda _config, spec: spec.get("read_only") is True,
    blocks={"pg": {"code": None, "sqlstate": None}},
)

# Conflicts, no connection, server going down or full: the same call may succeed later.
RETRYABLE_STATES = frozenset({"40001", "40P01"})
RETRYABLE_CLASSES = ("08", "53", "57P0")
DATA_EXCEPTION = "22000"
LOGIN_REFUSED = "28"  # the class of its states
UNNAMED: Mapping[str, str] = MappingProxyType({})
# Read through a cursor, which needs a transaction; what else gives rows (SHOW, EXPLAIN, CALL) gives few.
CURSOR_VERBS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE"})

READING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"})

_AT_VALUE = re.compile(r'at or near "\$\d+"')
_PARAM = re.compile(r'"?\$(\d+)"?')
# What the server runs only outside a transaction.
_ALONE = re.compile(
    r"(?:create|drop)\s+(?:database|tablespace)\b|alter\s+(?:system\b|database\s+\S+\s+set\s+tablespace\b)|vacuum\b"
    r"|(?:create\s+(?:unique\s+)?|drop\s+)index\s+concurrently\b|reindex\s+(?:\(|\w+\s+concurrently\b)",
    re.IGNORECASE,
)
_STREAM = re.compile(r"\b(from\s+stdin|to\s+stdout)\b", re.IGNORECASE)


class PostgresTool:
    def __init__(self, options: ToolOptions) -> None:
        import asyncpg

        self._lib = asyncpg
        self._pools = pg_pools.Pools()
        self._scripts = Scripts(options)

    async def run(self, call: Call) -> Outcome:
        return await self._guarded(call, _read_only if call.spec.get("read_only") is True else _execute)

    async def claim(self, call: Call, keep: Keep) -> Outcome:
        return await self._guarded(call, partial(_claim, keep=keep, read_only=call.spec.get("read_only")))

    async def _guarded(self, call: Call, work: "Work") -> Outcome:
        held: list[PoolConnectionProxy] = []

        def cut() -> None:  # a server that is gone does not answer a rollback either
            for connection in held:
                connection.terminate()

        return await guarded(call, self._run(call, held, work), cut, pg=codes(None))

    async def close(self) -> None:
        await self._pools.close()

    async def _run(self, call: Call, held: "list[PoolConnectionProxy]", work: "Work") -> Outcome:
        flag(call.spec, "read_only")
        call = await self._scripts.as_sql(call)
        statements = [inlined(each) for each in sql_call.statements(call)]
        results = Results(call.config.get("results"))
        where, wait = pg_pools.target(call), pg_pools.waiting(call)

        def at() -> str:
            return pg_pools.place(where, call.auth_name)

        try:
            async with self._pools.connection(where, wait) as connection:
                held.append(connection)
                await work(connection, statements, results)
            return ok(results.result(), shape="sql", pg=codes(None))
        except pg_pools.Busy as error:
            return failed("connect", f"{at()}: {error}", retryable=True, pg=codes(None))
        except WrongType as error:
            return failed("postgres", str(error), pg=codes(DATA_EXCEPTION))
        except self._lib.PostgresError as error:
            if held:
                at_fault = statements[results.count] if results.count < len(statements) else None
                return _failure(error, "postgres", statement=at_fault)
            refused = (error.sqlstate or "").startswith(LOGIN_REFUSED) and call.auth_name
            named = {"credential": call.auth_name} if refused else {}
            return _failure(error, "connect", f"{at()}: ", named)
        except (self._lib.exceptions.ClientConfigurationError, ValueError):
            if held:
                raise
            raise BadCall("the connection string or credential cannot be used"
                          + (f" (credential {call.auth_name})" if call.auth_name else "")) from None
        except TimeoutError:
            return failed("connect", f"{at()}: the server did not answer in time", retryable=True, pg=codes(None))
        except (OSError, self._lib.InterfaceError, self._lib.InternalClientError) as error:
            message = getattr(error, "strerror", None) or str(error)
            return failed("connect", f"{at()}: {message}", retryable=True, pg=codes(None))


def codes(sqlstate: str | None) -> dict[str, Any]:
    return {"code": sqlstate, "sqlstate": sqlstate}


def is_retryable(sqlstate: str) -> bool:
    return sqlstate in RETRYABLE_STATES or sqlstate.startswith(RETRYABLE_CLASSES)


def _failure(
    error: "PostgresError", kind: str, place: str = "", named: Mapping[str, str] = UNNAMED, *,
    statement: Statement | None = None,
) -> Outcome:
    state = error.sqlstate or ""
    details = {**named, **({"detail": error.detail} if getattr(error, "detail", None) else {})}
    message = str(error.message or error)
    if getattr(error, "severity", None) is None:  # asyncpg's own, while encoding: the value comes after the colon
        message = str(error).partition(":")[0]
    at_value = _AT_VALUE.search(message) is not None
    if statement is not None and (at_value or len(unshared(statement).params) == len(statement.params)):
        message = _PARAM.sub(partial(_written, statement.said), message)
    if at_value:  # our word for it, not the author's
        message += " (where a {{ … }} stands: a value can be there, no SQL; compare with a list by = ANY({{ … }}))"
    return failed(kind, place + message, retryable=is_retryable(state), pg=codes(state or None), details=details)


def _written(said: tuple[str, ...], param: re.Match[str]) -> str:
    """A parameter as its author wrote it."""
    number = int(param[1])
    return f"`{said[number - 1]}`" if 0 < number <= len(said) and said[number - 1] else param[0]


async def _execute(connection: "AnyConnection", statements: list[Statement], results: Results) -> None:
    """Several statements are one transaction, unless the author writes transactions himself or one of them
    cannot be in any."""
    own = any(statement.verb in TRANSACTION or _ALONE.match(statement.text) for statement in statements)
    together = len(statements) > 1 and not own
    typed = Typed(connection)
    async with connection.transaction() if together else contextlib.nullcontext():
        for statement in statements:
            results.add(await _one(connection, statement, typed))


async def _read_only(connection: "AnyConnection", statements: list[Statement], results: Results) -> None:
    """One transaction that the server keeps from writing; a statement that could make it another kind is refused."""
    if wrong := next((each.verb for each in statements if each.verb not in READING), ""):
        raise BadCall(f"spec.read_only: {wrong} is none of {', '.join(sorted(READING))}")
    typed = Typed(connection)
    async with connection.transaction(readonly=True):
        for statement in statements:
            results.add(await _one(connection, statement, typed))


async def _claim(
    connection: "AnyConnection", statements: list[Statement], results: Results, *, keep: Keep, read_only: Any
) -> None:
    """All statements are one transaction, which ends after `keep` has seen what they gave."""
    if read_only is True:
        raise BadCall("spec.read_only: a claim writes")
    if any(statement.verb in TRANSACTION or _ALONE.match(statement.text) for statement in statements):
        raise BadCall("a claim is one transaction of its own: write no statement that begins or ends one")
    transaction, typed = connection.transaction(), Typed(connection)
    await transaction.start()
    try:
        for statement in statements:
            results.add(await _one(connection, statement, typed))
        wanted = await keep(ok(results.result(), shape="sql", pg=codes(None)))
    except BaseException:
        await transaction.rollback()
        raise
    await (transaction.commit() if wanted else transaction.rollback())


async def _one(connection: "AnyConnection", statement: Statement, typed: Typed) -> dict[str, Any]:
    if statement.verb == "COPY" and _STREAM.search(statement.text):
        raise BadCall("COPY through the connection has nothing to read from or write to: use INSERT or SELECT")
    prepared, values = await typed.prepare(statement)
    columns = [attribute.name for attribute in prepared.get_attributes()]
    if not columns:
        await prepared.fetch(*values)
        return no_rows(_affected(prepared.get_statusmsg()))
    rows = Rows(columns)
    if statement.verb not in CURSOR_VERBS:
        rows.add(await prepared.fetch(*values))
    elif connection.is_in_transaction():
        await _read(prepared, values, rows)
    else:
        async with connection.transaction():
            await _read(prepared, values, rows)
    return rows.result()


async def _read(prepared: "PreparedStatement[Any]", values: list[Any], rows: Rows) -> None:
    cursor = await prepared.cursor(*values)
    while batch := await cursor.fetch(min(BATCH, ROW_LIMIT + 1)):
        rows.add(batch)


def _affected(status: str | None) -> int:
    """`INSERT 0 3`, `UPDATE 2`, but `CREATE TABLE`."""
    last = status.rpartition(" ")[2] if status else ""
    return int(last) if last.isdigit() else 0
