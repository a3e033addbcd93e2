"""`kind: ducklake`: SQL on a DuckLake: tables whose catalogue is shared by many workers. DuckDB runs it, in the
worker's process, with the lake attached."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from shared.engine.values.redaction import Secrets
from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import RESULT_LIMIT, Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, TooLarge, guarded, one_of
from shared.tools.base.threads import on_thread
from shared.tools.duckdb import guard as duck_guard
from shared.tools.duckdb.guard import MEMORY, TempFolder
from shared.tools.duckdb.lake_catalog import Catalog, catalog, load
from shared.tools.duckdb.tool import Setup, Work, refused
from shared.tools.scripts.loader import Scripts
from shared.tools.sql import call as sql_call
from shared.tools.sql.call import Results
from shared.tools.sql.text import MAX_STATEMENTS, Statement, inlined, split, with_texts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SQL = {name: sql_call.KEYS[name] for name in ("command", "query", "params", "table", "args", "results", "script")}
_ONE_OF = (*sql_call.ONE_OF, "commands")
SPEC = ToolSpec(
    kind="ducklake",
    doc="SQL on a DuckLake; needs DuckDB's extension ducklake. Result: {rows, row_count, columns}.",
    keys={
        **_SQL,
        "commands": KeySpec("List of commands, one after the other; rows and columns of the result are then lists, one "
                            "of each for every command.", sql=True),
        "auth": KeySpec("Credential of the PostgreSQL that has the catalogue: {dsn}, or {host, port, user, password, "
                        "database}."),
        "catalog_connection": KeySpec("Instead of auth: PostgreSQL connection string, or the path of a file."),
        "catalog_name": KeySpec("What the lake is called in SQL.", required=True),
        "data_path": KeySpec("Where the data is, the same for all workers; may be left out once the lake is there."),
    },
    one_of=_ONE_OF,
)

CALLS = 4                 # at a time; more wait for their turn
CONFLICT = "conflict"     # another transaction was first: try again
READS = frozenset({"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "EXPLAIN", "VALUES", "SUMMARIZE"})
UNREACHED = "Unable to connect"
HINT = ("pip install 'noetl-jetstream[ducklake]', or put it into the folder of extensions (NOETL_DUCKDB_EXTENSIONS); "
        "it must be for DuckDB")


class DuckLakeTool:
    def __init__(self, options: ToolOptions) -> None:
        import duckdb

        self._lib = duckdb
        self._guard = duck_guard.guard(options)
        self._scripts = Scripts(options)
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="ducklake")
        self._writing: dict[str, asyncio.Lock] = {}

    async def run(self, call: Call) -> Outcome:
        """What DuckDB says may hold the connection string: that is hidden as a credential is."""
        hide: list[Any] = [call.auth]
        with contextlib.suppress(BadCall):  # reported by _run
            hide += catalog(call, self._guard).secrets
        return Secrets({"hidden": hide}).outcome(await guarded(call, self._run(call)))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call) -> Outcome:
        commands = _commands(await self._scripts.as_sql(call))
        where = catalog(call, self._guard)
        wanted = Results(call.config.get("results"))
        if "commands" in call.config and call.config.get("results") is not None:
            raise BadCall("results goes with one command: those of commands are all there")
        temp = TempFolder(self._guard.temp_folder)
        work = _Lake(self._lib, commands, self._setup(where, temp.path), wanted)
        try:
            async with self._turn(where, commands):
                results = await on_thread(self._threads, work.run, work.stop)
        except self._lib.Error as error:
            return refused(str(error)) or self._failure(str(error), loaded=work.loaded)
        finally:
            temp.remove()
        return ok(_together(results["each"], "commands" in call.config), shape="sql")

    def _setup(self, where: Catalog, temp: str) -> Setup:
        loads = [load(each, self._lib.__version__) for each in where.extensions]
        return Setup(self._guard.opening(temp=temp, lake=True), loads, [], where.statements(), self._guard.closing())

    @contextlib.asynccontextmanager
    async def _turn(self, where: Catalog, commands: list[list[Statement]]) -> AsyncIterator[None]:
        """Writers of one worker go one after the other: of two that make the same table one would fail."""
        if all(statement.verb in READS for command in commands for statement in command):
            yield
            return
        async with self._writing.setdefault(where.place, asyncio.Lock()):
            yield

    def _failure(self, message: str, *, loaded: bool) -> Outcome:
        if not loaded:
            return failed("extension", f"an extension of DuckDB that DuckLake needs is missing on this worker: {HINT} "
                          f"{self._lib.__version__}", details={"reason": message})
        if UNREACHED in message:
            return failed("connect", message, retryable=True)
        return failed("ducklake", message, retryable=CONFLICT in message.lower())


def _commands(call: Call) -> list[list[Statement]]:
    """The statements of each command."""
    given = one_of(call.config, "command", "query", "table", "commands")
    if given is None or given[0] != "commands":
        return [_checked(sql_call.statements(call))]
    if not isinstance(given[1], list) or not given[1]:
        raise BadCall("commands must be a list of SQL texts")
    params = call.config.get("params")
    found = [_checked(split(*sql_call.bound(text, params), sql_call.texts_of(text))) for text in given[1]]
    if not all(found):
        raise BadCall("one of commands holds no statement")
    if sum(map(len, found)) > MAX_STATEMENTS:
        raise BadCall(f"commands have at most {MAX_STATEMENTS} statements")
    return found


def _checked(statements: list[Statement]) -> list[Statement]:
    found = [inlined(with_texts(each), escapes=False) for each in statements]
    duck_guard.check(each.text for each in found)
    return found


def _together(results: list[dict[str, Any]], several: bool) -> dict[str, Any]:
    if not several:
        return results[-1]
    return {"rows": [each["rows"] for each in results], "row_count": sum(each["row_count"] for each in results),
            "columns": [each["columns"] for each in results]}


class _Lake(Work):
    """A database in memory with the lake attached; every command is a transaction of its own."""

    def __init__(self, lib: Any, commands: list[list[Statement]], setup: Setup, results: Results) -> None:
        super().__init__(lib, MEMORY, [], setup, results)
        self._commands = commands
        self._size = 0

    def _all(self, connection: "DuckDBPyConnection") -> dict[str, Any]:
        if len(self._commands) == 1:
            self._statements = self._commands[0]
            return {"each": [super()._all(connection)]}
        return {"each": [self._command(connection, command) for command in self._commands]}

    def _command(self, connection: "DuckDBPyConnection", command: list[Statement]) -> dict[str, Any]:
        self._statements, self._results = command, Results()
        result = super()._all(connection)
        self._size += len(msgspec.json.encode(result))
        if self._size > RESULT_LIMIT:
            raise TooLarge(f"the results are over {RESULT_LIMIT} bytes")
        return result
