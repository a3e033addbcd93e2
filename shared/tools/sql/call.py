"""What the SQL kinds share: their keys, the statements of a call, and rows as JSON can hold them."""

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from shared.tools.base.contract import RESULT_LIMIT, Call, KeySpec
from shared.tools.base.guard import BadCall, TooLarge, one_of
from shared.tools.base.json_value import INT_MAX, INT_MIN
from shared.tools.scripts import loader as script
from shared.tools.sql.insert import MODES, insert
from shared.tools.sql.text import Statement, split

ROW_LIMIT = 100_000
RESULTS = ("last", "all")
BATCH = 1000  # rows fetched, converted and measured at a time

KEYS = {
    "command": KeySpec("SQL, one or several statements; several run in one transaction and the last one "
                       "gives the result.", sql=True),
    "query": KeySpec("The same as command.", sql=True),
    "params": KeySpec("List of values for $1, $2 …, instead of expressions in the command."),
    "table": KeySpec("Instead of a command: the table that `args` is inserted into."),
    "args": KeySpec("With table: a row as a mapping from column to value, or a list of rows. With script: the "
                    "values of {{ name }} in it, bound as in a command.", rows=True),
    "mode": KeySpec("With table: upsert updates the row with the same key instead of failing; insert unless given.",
                    choices=MODES),
    "key": KeySpec("With mode upsert: the column, or a list of columns, that tells rows apart."),
    "results": KeySpec("all: the result also holds that of each statement, as command_0, command_1 …; last unless "
                       "given.", choices=RESULTS),
    "script": script.key("Instead of a command: where its text is loaded from when the task runs."),
}
ONE_OF = ("command", "query", "table", "script")

_PLAIN = frozenset({type(None), bool, str})
_encoder = msgspec.json.Encoder()


def statements(
    call: Call, insert: Callable[[Any, Any, Any, Any], list[Statement]] = insert,
    own_split: Callable[[str, list[Any], frozenset[int]], list[Statement]] | None = None,
) -> list[Statement]:
    """Of a call whose script, if it has one, is loaded; `insert` and `own_split` are those of the kind's own SQL."""
    given = one_of(call.config, "command", "query", "table")
    if given is None:
        raise BadCall(f"one of {', '.join(ONE_OF)} is needed")
    name, value = given
    if name == "table":
        return insert(value, call.config.get("args"), call.config.get("mode"), call.config.get("key"))
    split_by = own_split or partial(split, said=getattr(value, "said", ()))
    found = split_by(*bound(value, call.config.get("params")), texts_of(value))
    if not found:
        raise BadCall(f"{name} holds no statement")
    return found


def bound(command: Any, params: Any) -> tuple[str, list[Any]]:
    """The text and its values: a rendered command brings its own, a plain one uses `params`."""
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


def texts_of(command: Any) -> frozenset[int]:
    """The numbers of a rendered command's parameters that stand in quotes."""
    return frozenset(getattr(command, "texts", ()))


class Results:
    """What the statements of a call gave: the last one's result, with all of them if the call asks for it."""

    def __init__(self, wanted: Any = None) -> None:
        wanted = wanted or "last"
        if wanted not in RESULTS:
            raise BadCall(f"results must be one of {', '.join(RESULTS)}")
        self._all = wanted == "all"
        self._last: dict[str, Any] = {}
        self._each: dict[str, Any] = {}
        self._size = 0
        self.count = 0  # of the statements that have run

    def add(self, result: dict[str, Any]) -> None:
        self.count += 1
        self._last = result
        if not self._all:
            return
        self._each[f"command_{len(self._each)}"] = result
        self._size += len(_encoder.encode(result))
        if self._size > RESULT_LIMIT:
            raise TooLarge(f"the results are over {RESULT_LIMIT} bytes")

    def result(self) -> dict[str, Any]:
        return {**self._last, **self._each, **({"commands": len(self._each)} if self._all else {})}


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
        case int():  # DuckDB has numbers of 128 bits
            return value if INT_MIN <= value <= INT_MAX else str(value)
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
