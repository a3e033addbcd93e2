"""What the SQL kinds share: their keys, the statements of a call, and rows as JSON can hold them."""

import base64
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from shared.tools.contract import RESULT_LIMIT, Call, KeySpec
from shared.tools.running import BadCall, TooLarge, one_of
from shared.tools.sql_text import Statement, insert, split

ROW_LIMIT = 100_000
BATCH = 1000  # rows fetched, converted and measured at a time

KEYS = {
    "command": KeySpec("SQL, one or several statements; several run in one transaction and the last one "
                       "gives the result.", sql=True),
    "query": KeySpec("The same as command.", sql=True),
    "params": KeySpec("List of values for $1, $2 …, instead of expressions in the command."),
    "table": KeySpec("Instead of a command: the table that `args` is inserted into."),
    "args": KeySpec("With table: a row as a mapping from column to value, or a list of rows."),
}

_PLAIN = frozenset({type(None), bool, int, str})
_encoder = msgspec.json.Encoder()


def statements(call: Call) -> list[Statement]:
    given = one_of(call.config, "command", "query", "table")
    if given is None:
        raise BadCall("one of command, query or table is needed")
    name, value = given
    if name == "table":
        return insert(value, call.config.get("args"))
    found = split(*bound(value, call.config.get("params")))
    if not found:
        raise BadCall(f"{name} holds no statement")
    return found


def bound(command: Any, params: Any) -> tuple[str, list[Any]]:
    """The text and its values: a rendered command brings its own, a plain one takes `params`."""
    own = getattr(command, "params", None)
    text = command if isinstance(command, str) else getattr(command, "text", None)
    if not isinstance(text, str):
        raise BadCall("the command must be text")
    if params is None or (own and params == []):
        return text, list(own or ())
    if not isinstance(params, (list, tuple)):
        raise BadCall("params must be a list of values for $1, $2 …")
    if own:
        raise BadCall("give either params or expressions in the command, not both")
    return text, list(params)


class Rows:
    """Collects a result within its limits."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = list(columns)
        self.rows: list[dict[str, Any]] = []
        self._size = 0

    def add(self, batch: Iterable[Iterable[Any]]) -> None:
        new = [dict(zip(self.columns, map(plain, row), strict=True)) for row in batch]
        self.rows += new
        if len(self.rows) > ROW_LIMIT:
            raise TooLarge(f"the result has more than {ROW_LIMIT} rows")
        self._size += len(_encoder.encode(new))
        if self._size > RESULT_LIMIT:
            raise TooLarge(f"the result is over {RESULT_LIMIT} bytes")

    def result(self) -> dict[str, Any]:
        return {"rows": self.rows, "row_count": len(self.rows), "columns": self.columns}


def no_rows(count: int) -> dict[str, Any]:
    return {"rows": [], "row_count": count, "columns": []}


def plain(value: Any) -> Any:
    """The value as JSON can hold it, without losing any of it."""
    if type(value) in _PLAIN:
        return value
    match value:
        case float():
            return value if math.isfinite(value) else str(Decimal(value))
        case Decimal():
            return _number(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case UUID():
            return str(value)
        case _:
            return str(value)


def _number(value: Decimal) -> int | float | str:
    """A number if JSON's 64 bits hold it exactly, else its digits as text."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        return int(value) if abs(value) < 2**63 else str(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)
