"""What the ends of a transfer are: sources that give batches of rows, targets that write them in one
transaction. One file per database; a new one is a class and a line in `tool.py`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from shared.errors import ToolError
from shared.events.outcome import Outcome, failed
from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall, mapping, one_of
from shared.tools.sql.call import bound
from shared.tools.sql.rows import Batch

MODES = {"append": "append", "insert": "append", "replace": "replace", "truncate": "replace", "upsert": "upsert",
         "merge": "upsert"}


class EndFailed(ToolError):
    """What an end's library or server said no to, as the outcome it becomes."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error["message"] if outcome.error else "")
        self.outcome = outcome


class End(Struct, frozen=True):
    """One end as it is written: `config` its keys, `call` the task's call with the end's credential."""

    name: str
    type: str
    config: Mapping[str, Any]
    call: Call

    def text(self) -> tuple[str, list[Any]] | None:
        given = one_of(self.config, "query", "command")
        return bound(given[1], self.config.get("params")) if given else None

    def failed(self, kind: str, message: str, **fields: Any) -> EndFailed:
        return EndFailed(failed(kind, f"{self.name}: {message}", **fields))


class Source(Protocol):
    def batches(self, size: int, wanted: Sequence[str] | None) -> AsyncGenerator[Batch, None]:
        """All rows, at most `size` at a time. `wanted` are the fields somebody asks for, None for all."""
        ...

    async def close(self) -> None: ...


class Target(Protocol):
    async def begin(self) -> None:
        """Begins the transaction, and in mode `replace` empties the table in it."""
        ...

    async def write(self, columns: list[str], rows: list[list[Any]]) -> None: ...

    async def commit(self) -> None: ...

    async def close(self) -> None:
        """Undoes what is not committed."""
        ...


class Into(Struct, frozen=True):
    """Where rows go: a table by one of the modes, or a statement of the author's for each."""

    table: str
    mode: str
    key: Any
    query: tuple[str, list[Any]] | None


def into(end: End) -> Into:
    query, table = end.text(), end.config.get("table")
    if (query is None) == (table is None):
        raise BadCall("target needs a table, or a query that takes the values of a row")
    if table is not None and not isinstance(table, str):
        raise BadCall("target.table must be a name")
    mode = MODES.get(str(end.config.get("mode", "append")).lower())
    if mode is None:
        raise BadCall(f"target.mode must be one of {', '.join(MODES)}")
    if query is not None and (mode != "append" or end.config.get("key") is not None):
        raise BadCall("with target.query the statement says what is done: leave mode and key out")
    return Into(table or "", mode, end.config.get("key"), query)


def names(end: End) -> Mapping[str, str] | None:
    """`mapping` of the target: column to field of the source."""
    given = mapping(end.config, "mapping")
    if not all(isinstance(field, str) for field in given.values()):
        raise BadCall("target.mapping must give the name of a source field for each column")
    return {str(column): field for column, field in given.items()} or None
