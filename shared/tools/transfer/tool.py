"""`kind: transfer`: rows from one place to another, a batch at a time, all of them in one transaction of the
target or none."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, mapping, one_of
from shared.tools.sql.rows import Batch, Picker
from shared.tools.transfer.ends import MODES, End, EndFailed, Source, Target, names

SOURCES = ("http", "postgres", "snowflake", "duckdb")
TARGETS = ("postgres", "snowflake", "duckdb")
BATCH_ROWS = 1000       # unless chunk_size says otherwise
MAX_BATCH_ROWS = 10_000
THREADS = 8             # for databases whose libraries block

_DATABASE = {
    "auth": KeySpec("Credential of this end, as that of a task of its kind.", credential=True),
    "connection": KeySpec("postgres: connection string, instead of auth."),
    "database": KeySpec("duckdb: path of a database file. snowflake: instead of the credential's."),
    "warehouse": KeySpec("snowflake: instead of the credential's."),
    "schema": KeySpec("snowflake: instead of the credential's."),
    "role": KeySpec("snowflake: instead of the credential's."),
    "params": KeySpec("List of values for $1, $2 … of the query; for http, query parameters."),
}


def _type(choices: tuple[str, ...]) -> dict[str, KeySpec]:
    doc = f"What this end is: {', '.join(choices)}."
    return {"type": KeySpec(doc, choices=choices), "tool": KeySpec("The same as type.", choices=choices),
            "kind": KeySpec("The same as type.", choices=choices)}


SOURCE = {
    **_type(SOURCES),
    **_DATABASE,
    "query": KeySpec("SQL, one statement that gives rows.", sql=True),
    "command": KeySpec("The same as query.", sql=True),
    "url": KeySpec("http: the address; its answer is a JSON list of mappings."),
    "path": KeySpec("http: where the rows are in the answer, by dots."),
    "method": KeySpec("http: GET unless given."),
    "headers": KeySpec("http: mapping of request headers."),
    "json": KeySpec("http: body sent as JSON."),
    "body": KeySpec("http: body, text as it is or anything else as JSON."),
}
TARGET = {
    **_type(TARGETS),
    **_DATABASE,
    "table": KeySpec("The table the rows go to; it must be there."),
    "mode": KeySpec("append (also insert) unless given; replace: the table is emptied before; upsert: rows whose "
                    "key is there are updated.", choices=tuple(MODES)),
    "key": KeySpec("upsert: column or columns that tell rows apart; the primary key unless given."),
    "mapping": KeySpec("Mapping of column to source field; all fields under their own names unless given. In a JSON "
                       "answer a.b is b inside a."),
    "query": KeySpec("Instead of a table: a statement run for each row, with %s where its values go, in the order of "
                     "mapping or of the source's columns.", sql=True),
    "command": KeySpec("The same as query.", sql=True),
    "batch_size": KeySpec("The same as chunk_size."),
}
SPEC = ToolSpec(
    kind="transfer",
    doc="Rows from a source to a target, in batches, in one transaction. "
        "Result: {rows_read, rows_written, batches, columns}.",
    keys={
        "source": KeySpec("Where the rows come from.", required=True, fields=SOURCE),
        "target": KeySpec("Where the rows go.", required=True, fields=TARGET),
        "chunk_size": KeySpec(f"Rows of a batch, {BATCH_ROWS} unless given, at most {MAX_BATCH_ROWS}."),
        "batch_size": KeySpec("The same as chunk_size."),
    },
)


# Which of the keys mean something for an end of a type; the others are refused, not passed over.
_TYPE = {"type", "tool", "kind"}
_SELECT = {"query", "command", "params"}
_INTO = {"table", "mode", "key", "mapping", "batch_size"} | _SELECT
_OF_TYPE = {
    "http": {"url", "path", "method", "headers", "json", "body", "params", "auth"},
    "postgres": {"connection", "auth"},
    "snowflake": {"database", "warehouse", "schema", "role", "auth"},
    "duckdb": {"database"},
}


class TransferTool:
    def __init__(self, options: ToolOptions) -> None:
        self._options = options
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="transfer")
        self._kept: dict[str, Any] = {}  # what ends share: pools of connections, an HTTP session

    async def run(self, call: Call) -> Outcome:
        held: list[Any] = []

        def cut() -> None:
            for end in held:
                if hasattr(end, "cut"):
                    end.cut()

        return await guarded(call, self._run(call, held), cut)

    async def close(self) -> None:
        for each in self._kept.values():
            await each.close()
        self._kept.clear()
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call, held: list[Any]) -> Outcome:
        if call.auth is not None:
            raise BadCall("auth belongs to an end: write it inside source or target")
        size = _size(call)
        source_end, target_end = _end(call, "source", SOURCES), _end(call, "target", TARGETS)
        wanted = names(target_end)
        try:
            async with contextlib.AsyncExitStack() as stack:
                target: Target = await self._make(target_end, "target")
                stack.push_async_callback(target.close)
                source: Source = await self._make(source_end, "source")
                stack.push_async_callback(source.close)
                held += (target, source)
                batches = source.batches(size, list(wanted.values()) if wanted else None)
                return ok(await _copy(batches, target, Picker(wanted)))
        except EndFailed as error:
            return error.outcome

    async def _make(self, end: End, side: str) -> Any:
        """The end's class; its library is imported here, on a thread, and only when it is used."""
        match end.type:
            case "http":
                from shared.tools.transfer.http import HttpSource

                return HttpSource(end, self._keep("http", self._http))
            case "postgres":
                from shared.tools.postgres.connections import Pools
                from shared.tools.transfer.postgres import PostgresSource, PostgresTarget

                # One pool of connections a side: a transfer that has its source's waits for no other's source.
                pools = self._keep(f"postgres {side}", Pools)
                return PostgresSource(end, pools) if side == "source" else PostgresTarget(end, pools)
            case "snowflake":
                from shared.tools.transfer.snowflake import SnowflakeSource, SnowflakeTarget

                snow = SnowflakeSource if side == "source" else SnowflakeTarget
                return await asyncio.to_thread(snow, end, self._threads)
            case _:
                from shared.tools.duckdb.guard import guard
                from shared.tools.transfer.duckdb import DuckSource, DuckTarget

                return (DuckSource if side == "source" else DuckTarget)(end, self._threads, guard(self._options))

    def _keep(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def _http(self) -> Any:
        from shared.tools.http.tool import HttpTool

        return HttpTool(self._options)


async def _copy(batches: AsyncGenerator[Batch, None], target: Target, picker: Picker) -> dict[str, Any]:
    read, count = 0, 0
    columns: list[str] = []
    await target.begin()
    async with contextlib.aclosing(batches):
        async for batch in batches:
            columns = columns or picker.columns(batch.fields)
            await target.write(columns, picker.rows(batch))
            read, count = read + len(batch.rows), count + 1
    await target.commit()
    return {"rows_read": read, "rows_written": read, "batches": count, "columns": columns}


def _end(call: Call, name: str, types: tuple[str, ...]) -> End:
    config = mapping(call.config, name)
    given = one_of(config, "type", "tool", "kind")
    if given is None:
        raise BadCall(f"{name}.type is needed: one of {', '.join(types)}")
    kind = str(given[1]).lower()
    if kind not in types:
        raise BadCall(f"{name}.type cannot be {kind!r}: one of {', '.join(types)}")
    credential = call.credentials.get(f"{name}.auth") or None
    rest = _INTO if name == "target" else _SELECT if kind != "http" else set()
    given_keys = {*config, "auth"} if credential else set(config)
    if unused := sorted(given_keys - _TYPE - _OF_TYPE[kind] - rest):
        raise BadCall(f"{name}.{unused[0]} means nothing for {kind}: leave it out")
    return End(name, kind, config, replace(call, config=config, auth=credential))


def _size(call: Call) -> int:
    given = one_of(call.config, "chunk_size", "batch_size") or one_of(mapping(call.config, "target"), "batch_size")
    size = given[1] if given else BATCH_ROWS
    if isinstance(size, str) and size.isdigit():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_BATCH_ROWS:
        raise BadCall(f"chunk_size must be a whole number from 1 to {MAX_BATCH_ROWS}")
    return size
