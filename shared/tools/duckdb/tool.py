"""`kind: duckdb`: SQL in the worker's process, on a thread, bounded in memory and interrupted when it must
stop. Without `database` every call has a fresh database in memory."""

import asyncio
import contextlib
import re
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from shared.errors import TemplateError
from shared.events.outcome import Outcome, failed, ok
from shared.tools import sql_call
from shared.tools.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.duck_extensions import carried, for_secrets
from shared.tools.duck_secrets import secrets
from shared.tools.running import BadCall, guarded
from shared.tools.script import NoScript, Scripts, failure
from shared.tools.sql_call import BATCH, Results, Rows, no_rows
from shared.tools.sql_text import TRANSACTION, Statement, inlined

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPEC = ToolSpec(
    kind="duckdb",
    doc="SQL on DuckDB, in memory or on a file. Result: {rows, row_count, columns}.",
    keys={
        **sql_call.KEYS,
        "database": KeySpec("Path of a database file; in memory unless given."),
        "auth": KeySpec("Credentials the SQL uses, as secrets under their aliases: {pg_db: {credential: …, type: "
                        "postgres}}. Types: postgres, gcs (an HMAC key), s3, each with a scope."),
    },
    one_of=sql_call.ONE_OF,
    aliases=True,
    knobs={"memory_limit": KeySpec("A size such as 512MB, which is the default.")},
)

MEMORY_LIMIT = "512MB"   # unless spec.memory_limit says otherwise
THREADS = 2              # of one database
CALLS = 4                # at a time; more wait for their turn
INTERRUPT_EVERY_S = 0.05
MEMORY = ":memory:"
LOCKED = "could not set lock"  # another process has the file open: try again
CLOSING = "unique file handle conflict"  # another tool of this worker is closing it: try again
_DOOR = threading.Lock()  # a file that is opened while its last connection closes is refused
SETUP = frozenset({"INSTALL", "LOAD", "SET", "PRAGMA"})  # before secrets are made, and outside the transaction
_EXTENSION = re.compile(r"""(?:download|install)[^\n]*?extension\s+["']?([\w-]+)|extension\s+["'][^"']*?([\w-]+?)"""
                        r"""(?:\.duckdb_extension)?["']\s+not\s+found""", re.IGNORECASE)
_SIZE = re.compile(r"\d+(\.\d+)?\s?(KB|MB|GB|KiB|MiB|GiB)", re.IGNORECASE)


class DuckTool:
    def __init__(self, options: ToolOptions) -> None:
        import duckdb

        self._lib = duckdb
        self._temp_folder = options.temp_folder or tempfile.gettempdir()
        self._extensions = options.duckdb_extensions
        self._scripts = Scripts(options)
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="duckdb")

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call) -> Outcome:
        database = str(call.config.get("database") or MEMORY)
        try:
            call = await self._scripts.as_sql(call)
        except NoScript as error:
            return failure(error)
        except TemplateError as error:
            return failed("template", f"script: {error}")
        version = self._lib.__version__
        statements = carried([inlined(each, escapes=False) for each in sql_call.statements(call)], version)
        used = secrets(call.auth, statements)
        before = [*for_secrets([each.kind for each in used], version), *(each.text for each in used)]
        work = _Work(self._lib, database, statements, self._settings(call, database), before,
                     Results(call.config.get("results")))
        job = self._threads.submit(work.run)
        try:
            return ok(await asyncio.wrap_future(job), shape="sql")
        except self._lib.Error as error:
            return _failure(str(error))
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
        if self._extensions:
            settings["extension_directory"] = self._extensions
        if database == MEMORY:
            settings["temp_directory"] = self._temp_folder
        return settings


class _Work:
    """One call on its thread. `stop` is called from the event loop, again and again until it is over,
    because an interrupt between two statements is lost."""

    def __init__(
        self, lib: Any, database: str, statements: list[Statement], settings: dict[str, str], secrets: list[str],
        results: Results | None = None,
    ) -> None:
        self._lib = lib
        self._database = database
        self._statements = statements
        self._settings = settings
        self._secrets = secrets
        self._results = results or Results()
        self._connection: DuckDBPyConnection | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        if self._connection is not None:
            with contextlib.suppress(self._lib.Error):
                self._connection.interrupt()

    def run(self) -> dict[str, Any]:
        door = contextlib.nullcontext() if self._database == MEMORY else _DOOR
        with door:
            connection: DuckDBPyConnection = self._lib.connect(self._database)
        try:
            for name, value in self._settings.items():
                connection.execute(f"SET {name} = '{value.replace(chr(39), chr(39) * 2)}'")
            self._connection = connection
            return self._all(connection)
        finally:
            self._connection = None
            with door:
                connection.close()

    def _all(self, connection: "DuckDBPyConnection") -> dict[str, Any]:
        """Several statements are one transaction; closing the connection undoes what is not committed."""
        setup = list(takewhile(lambda each: each.verb in SETUP, self._statements))
        rest = self._statements[len(setup) :]
        own = any(statement.verb in TRANSACTION for statement in rest)
        together = len(rest) > 1 and not own
        for statement in setup:
            self._results.add(self._one(connection, statement))
        for secret in self._secrets:
            self._secret(connection, secret)
        if together:
            connection.begin()
        for statement in rest:
            self._results.add(self._one(connection, statement))
        if together:
            connection.commit()
        return self._results.result()

    def _secret(self, connection: "DuckDBPyConnection", text: str) -> None:
        try:
            connection.execute(text)
        except self._lib.Error as error:
            raise self._lib.Error(str(error).partition("\nLINE ")[0]) from None  # behind it is the secret itself

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


def _failure(message: str) -> Outcome:
    if found := _EXTENSION.search(message):
        name = found[1] or found[2]
        return failed("extension", f"DuckDB's extension {name} is not on this worker and cannot be downloaded: "
                      "pip install 'noetl-jetstream[duckdb]', or put it into the folder of extensions "
                      "(NOETL_DUCKDB_EXTENSIONS)", details={"reason": message})
    return failed("duckdb", message, retryable=LOCKED in message.lower() or CLOSING in message.lower())
