"""Parameters with the types their values would have as literals (`5`, `1.5`, `true`, `'x'`).

Theory of operation
-------------------
1. The server names the type of a parameter where its place has one (`id = $1`), and that stands: a number given for a
   text column is converted, as it always was.
2. Where the place has none, the server refuses (`$1 * $2`, `jsonb_build_object('n', $1)`) or takes text
   (`SELECT $1`). Then the statement is prepared again with the type of the value said (`$1::int4`). What the server
   does not take either is left as it was: `text_column = $1` stays what it is.
3. The same expression twice is one parameter (`sql_writer.py`), or `GROUP BY x / $2` would not be `SELECT x / $1`.
   Where the server wants two types of it, each place gets its own parameter.
4. A statement that is refused aborts its transaction, so it is tried behind a savepoint.
"""

import math
import re
from typing import TYPE_CHECKING, Any

from shared.tools.postgres.params import convert
from shared.tools.sql.text import Statement, cast, unshared

if TYPE_CHECKING:
    from asyncpg import Connection, PostgresError
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.prepared_stmt import PreparedStatement

    AnyConnection = Connection | PoolConnectionProxy
    Prepared = tuple[PreparedStatement[Any], list[Any]]

# No type, or the wrong one: undetermined, ambiguous, no such function or operator, mismatch, two types, cannot be cast.
UNTYPED = frozenset({"42P18", "42725", "42883", "42804", "42P08", "42846"})
TEXT = frozenset({"text", "unknown"})
ONE_BY_ONE = 8  # parameters whose types are tried each by itself, when they do not fit together
INT4, INT8 = 2**31, 2**63
_READS = frozenset({"SELECT", "VALUES", "WITH", "TABLE"})
_WRITES = re.compile(r"\b(?:insert|update|delete|merge)\b", re.IGNORECASE)
_CAST = re.compile(r"\$(\d+)\s*::|\bcast\s*\(\s*\$(\d+)\s+as\b", re.IGNORECASE)
_SAVEPOINT = "noetl_types"


def type_of(value: Any) -> str:
    """The type of the value's literal; nothing has none, and is text where one is wanted."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int4" if -INT4 <= value < INT4 else "int8" if -INT8 <= value < INT8 else "numeric"
        case float():
            return "numeric" if math.isfinite(value) else "float8"
        case dict() | list() | tuple():
            return "jsonb"
    return "text"


class Typed:
    """Prepares the statements of one call on one connection."""

    def __init__(self, connection: "AnyConnection") -> None:
        self._connection = connection
        self._as_it_is: set[str] = set()  # texts that need no second look, however many rows they insert

    async def prepare(self, statement: Statement) -> "Prepared":
        """The statement as the server takes it, and its values."""
        if not statement.params or statement.text in self._as_it_is:
            return _with_values(await self._connection.prepare(statement.text), statement)
        first = await self._tried(statement)
        if isinstance(first, Exception):
            return await self._said(statement, first)
        own = unshared(statement)
        if len(own.params) > len(statement.params) and _bends_text(statement, first):
            apart = await self._tried(own)
            if not isinstance(apart, Exception):
                statement, first = own, apart
        if statement.verb not in _READS or _WRITES.search(statement.text):
            if len(own.params) == len(statement.params):
                self._as_it_is.add(statement.text)
            return _with_values(first, statement)
        return _with_values(await self._carried(statement, first), statement)

    async def _said(self, statement: Statement, error: "PostgresError") -> "Prepared":
        """The statement with every type said, since it was refused without."""
        if error.sqlstate not in UNTYPED:
            raise error
        own = unshared(statement)
        bases = [statement, own] if len(own.params) > len(statement.params) else [statement]
        tries = [(own, own)] if len(bases) > 1 else []
        tries += [(cast(base, _types(base)), base) for base in bases]
        tries += [(cast(base, _types(base, texts=False)), base) for base in bases]
        for text, base in tries:
            found = await self._tried(text)
            if not isinstance(found, Exception):
                return _with_values(found, base)
        raise error

    async def _carried(self, statement: Statement, first: "PreparedStatement[Any]") -> "PreparedStatement[Any]":
        """The statement with the types of values that the server took for text for want of another."""
        names = _names(first)
        types = {number: kind for number, kind in _types(statement, texts=False).items() if names[number - 1] in TEXT}
        if not types:
            return first
        found = await self._tried(cast(statement, types))
        if not isinstance(found, Exception):
            return found
        kept: dict[int, str] = {}
        for number, kind in list(types.items())[:ONE_BY_ONE] if len(types) > 1 else ():
            found = await self._tried(cast(statement, {**kept, number: kind}))
            if not isinstance(found, Exception):
                first, kept = found, {**kept, number: kind}
        return first

    async def _tried(self, statement: Statement) -> "PreparedStatement[Any] | PostgresError":
        import asyncpg

        connection, within = self._connection, self._connection.is_in_transaction()
        if within:
            await connection.execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            return await connection.prepare(statement.text)
        except asyncpg.PostgresError as error:
            if within:
                await connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            return error
        finally:
            if within:
                await connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")


def _types(statement: Statement, *, texts: bool = True) -> dict[int, str]:
    """The types of the parameters' values, unless the author has cast them; a text, and what stands in quotes, only
    when `texts` are wanted."""
    given = {int(found[1] or found[2]) for found in _CAST.finditer(statement.text)}
    found = {number: "text" if number in statement.texts else type_of(value)
             for number, value in enumerate(statement.params, 1) if number not in given}
    return {number: kind for number, kind in found.items() if texts or kind != "text"}


def _names(prepared: "PreparedStatement[Any]") -> tuple[str, ...]:
    return tuple(str(kind.name) for kind in prepared.get_parameters())


def _bends_text(statement: Statement, prepared: "PreparedStatement[Any]") -> bool:
    """Whether a text may be taken for something else where it is a text, since it is the same parameter elsewhere."""
    pairs = zip(statement.params, _names(prepared), strict=True)
    return any(isinstance(value, str) and kind not in TEXT for value, kind in pairs)


def _with_values(prepared: "PreparedStatement[Any]", statement: Statement) -> "Prepared":
    return prepared, convert(statement.params, _names(prepared), statement.said)
