"""`kind: duckdb`: SQL in the worker's process, on a thread, bounded in memory and interrupted when it must
stop. Without `database` every call has a fresh database in memory."""

import asyncio
import contextlib
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from shared.events.outcome import Outcome, failed, ok
from shared.tools import sql_call
from shared.tools.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.running import BadCall, guarded
from shared.tools.sql_call import BATCH, Rows, no_rows
from shared.tools.sql_text import TRANSACTION, Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPEC = ToolSpec(
    kind="duckdb",
    doc="SQL on DuckDB, in memory or on a file. Result: {rows, row_count, columns}.",
    keys={**sql_call.KEYS, "database": KeySpec("Path of a database file; in memory unless given.")},
    knobs={"memory_limit": KeySpec("A size such as 512MB, which is the default.")},
)

MEMORY_LIMIT = "512MB"   # unless spec.memory_limit says otherwise
THREADS = 2              # of one database
CALLS = 4                # at a time; more wait for their turn
INTERRUPT_EVERY_S = 0.05
MEMORY = ":memory:"
LOCKED = "could not set lock"  # another process has the file open: try again
_SIZE = re.compile(r"\d+(\.\d+)?\s?(KB|MB|GB|KiB|MiB|GiB)", re.IGNORECASE)


class DuckTool:
    def __init__(self, options: ToolOptions) -> None:
        import duckdb

        self._lib = duckdb
        self._temp_folder = options.temp_folder or tempfile.gettempdir()
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="duckdb")

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call) -> Outcome:
        database = str(call.config.get("database") or MEMORY)
        work = _Work(self._lib, database, sql_call.statements(call), self._settings(call, database))
        job = self._threads.submit(work.run)
        try:
            return ok(await asyncio.wrap_future(job), shape="sql")
        except self._lib.Error as error:
            return failed("duckdb", str(error), retryable=LOCKED in str(error).lower())
        finally:
            while not job.done() and not job.cancel():
                work.stop()
                await asyncio.sleep(INTERRUPT_EVERY_S)

    def _settings(self, call: Call, database: str) -> dict[str, str]:
        memory = str(call.spec.get("memory_limit", MEMORY_LIMIT))
        if not _SIZE.fullmatch(memory):
            raise BadCall("spec.memory_limit must be a size such as 512MB")
        # Without the last one SQL could name the worker's own Python variables as tables.
        settings = {"memory_limit": memory, "threads": str(THREADS), "python_enable_replacements": "false"}
        if database == MEMORY:
            settings["temp_directory"] = self._temp_folder
        return settings


class _Work:
    """One call on its thread. `stop` is called from the event loop, again and again until it is over,
    because an interrupt between two statements is lost."""

    def __init__(
        self, lib: Any, database: str, statements: list[Statement], settings: dict[str, str]
    ) -> None:
        self._lib = lib
        self._database = database
        self._statements = statements
        self._settings = settings
        self._connection: DuckDBPyConnection | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        if self._connection is not None:
            with contextlib.suppress(self._lib.Error):
                self._connection.interrupt()

    def run(self) -> dict[str, Any]:
        connection: DuckDBPyConnection = self._lib.connect(self._database)
        try:
            for name, value in self._settings.items():
                connection.execute(f"SET {name} = '{value.replace(chr(39), chr(39) * 2)}'")
            self._connection = connection
            return self._all(connection)
        finally:
            self._connection = None
            connection.close()

    def _all(self, connection: "DuckDBPyConnection") -> dict[str, Any]:
        """Several statements are one transaction; closing the connection undoes what is not committed."""
        own = any(statement.verb in TRANSACTION for statement in self._statements)
        together = len(self._statements) > 1 and not own
        result: dict[str, Any] = {}
        if together:
            connection.begin()
        for statement in self._statements:
            result = self._one(connection, statement)
        if together:
            connection.commit()
        return result

    def _one(self, connection: "DuckDBPyConnection", statement: Statement) -> dict[str, Any]:
        if self._stopped:
            raise self._lib.InterruptException("stopped")
        prepared = connection.extract_statements(statement.text)[0]
        connection.execute(prepared, statement.params)
        description = connection.description or []
        columns = [str(column[0]) for column in description]
        counts = self._lib.ExpectedResultType.CHANGED_ROWS in prepared.expected_result_type
        if not columns or (counts and columns == ["Count"]):
            row = connection.fetchone() if columns else None
            return no_rows(int(row[0]) if row else 0)
        rows = Rows(columns)
        json = [str(column[1]) == "JSON" for column in description]
        while batch := connection.fetchmany(BATCH):
            rows.add(_with_json(batch, json) if any(json) else batch)
        return rows.result()


def _with_json(batch: list[Any], json: list[bool]) -> list[list[Any]]:
    """JSON columns come as text; templates want their values."""
    return [
        [msgspec.json.decode(value) if is_json and value is not None else value
         for value, is_json in zip(row, json, strict=True)]
        for row in batch
    ]
