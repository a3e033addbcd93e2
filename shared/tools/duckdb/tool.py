"""`kind: duckdb`: SQL in the worker's process, on a thread, bounded in memory and interrupted when it must
stop. Without `database` every call has a fresh database in memory."""

import asyncio
import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded
from shared.tools.base.threads import on_thread
from shared.tools.duckdb import guard as duck_guard
from shared.tools.duckdb.extensions import attached, for_secrets, loaded
from shared.tools.duckdb.guard import MEMORY, MEMORY_LIMIT, SETTING, TempFolder
from shared.tools.duckdb.secrets import secrets
from shared.tools.duckdb.session import Session
from shared.tools.scripts.loader import Scripts
from shared.tools.sql import call as sql_call
from shared.tools.sql.call import BATCH, Results, Rows, no_rows
from shared.tools.sql.text import TRANSACTION, Statement, inlined, with_texts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPEC = ToolSpec(
    kind="duckdb",
    doc="SQL on DuckDB, in memory or on a file. Result: {rows, row_count, columns}.",
    keys={
        **sql_call.KEYS,
        "database": KeySpec("Path of a database file in a folder the worker allows; in memory unless given."),
        "auth": KeySpec("Credentials the SQL uses, as secrets under their aliases: {pg_db: {credential: …, type: "
                        "postgres}}. Types: postgres, gcs (an HMAC key), s3, each with a scope."),
    },
    one_of=sql_call.ONE_OF,
    aliases=True,
    knobs={"memory_limit": KeySpec("A size such as 512MB, which is the default.")},
)

CALLS = 4  # at a time; more wait for their turn
LOCKED = "could not set lock"  # another process has the file open: try again
CLOSING = "unique file handle conflict"  # another tool of this worker is closing it: try again
# Statements that leave nothing behind in an open database for those who have it open too.
PLAIN = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "DESCRIBE", "SHOW", "SUMMARIZE", "INSERT", "UPDATE",
                   "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "CHECKPOINT", *TRANSACTION})
_SETUP = frozenset({"SET", "PRAGMA", "RESET"})  # at the beginning: outside the transaction
_DISABLED = re.compile(r"disabled (?:by|through) configuration")
_EXTENSION = re.compile(r"""(?:download|install)[^\n]*?extension\s+["']?([\w-]+)|extension\s+["'][^"']*?([\w-]+?)"""
                        r"""(?:\.duckdb_extension)?["']\s+not\s+found""", re.IGNORECASE)
_SIZE = re.compile(r"\d+(\.\d+)?\s?(KB|MB|GB|KiB|MiB|GiB)", re.IGNORECASE)


class Setup(Struct, frozen=True):
    """What a database is given before it is locked, in this order."""

    opening: list[str]
    loads: list[str]
    secrets: list[str]
    attach: list[str]
    closing: list[str]


class DuckTool:
    def __init__(self, options: ToolOptions) -> None:
        import duckdb

        self._lib = duckdb
        self._guard = duck_guard.guard(options)
        self._scripts = Scripts(options)
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="duckdb")

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call) -> Outcome:
        call = await self._scripts.as_sql(call)
        with contextlib.ExitStack() as stack:
            work = self._work(call, stack)
            try:
                return ok(await on_thread(self._threads, work.run, work.stop), shape="sql")
            except self._lib.Error as error:
                return refused(str(error)) or _failure(str(error))

    def _work(self, call: Call, stack: contextlib.ExitStack) -> "Work":
        given, version = str(call.config.get("database") or MEMORY), self._lib.__version__
        database = given if given == MEMORY else self._guard.file("database", given)
        statements = [inlined(with_texts(each), escapes=False) for each in sql_call.statements(call)]
        duck_guard.check(each.text for each in statements)
        used = secrets(call.auth, statements)
        loads, rest = loaded(statements, version)
        attach, rest = attached(rest, [each.name for each in used])
        temp = None
        if database == MEMORY:
            folder = TempFolder(self._guard.temp_folder)
            stack.callback(folder.remove)
            temp = folder.path
        scopes = [scope for each in used for scope in each.scopes]
        setup = Setup(self._guard.opening(_memory(call), temp),
                      [*for_secrets([each.kind for each in used], version), *loads],
                      [each.text for each in used], attach, self._guard.closing(scopes))
        return Work(self._lib, database, rest, setup, Results(call.config.get("results")))


def _memory(call: Call) -> str:
    memory = str(call.spec.get("memory_limit", MEMORY_LIMIT))
    if not _SIZE.fullmatch(memory):
        raise BadCall("spec.memory_limit must be a size such as 512MB")
    return memory


class Work:
    """One call on its thread. `stop` is called from another, again and again until it is over, because an interrupt
    between two statements is lost."""

    def __init__(
        self, lib: Any, database: str, statements: list[Statement], setup: Setup, results: Results | None = None,
    ) -> None:
        self._lib = lib
        self._database = database
        self._statements = statements
        self._setup = setup
        self._results = results or Results()
        self._connection: DuckDBPyConnection | None = None
        self._stopped = False
        self.loaded = False

    def stop(self) -> None:
        self._stopped = True
        if (connection := self._connection) is not None:
            with contextlib.suppress(self._lib.Error):
                connection.interrupt()

    def run(self) -> dict[str, Any]:
        session = Session(self._lib, self._database, self._prepare, self._shared())
        connection = session.open(lambda: self._stopped)
        try:
            self._connection = connection
            return self._all(connection)
        finally:
            self._connection = None
            session.close()

    def _shared(self) -> tuple[str, ...] | None:
        setup = self._setup
        if setup.loads or setup.secrets or setup.attach or not all(map(_plain, self._statements)):
            return None
        return (*setup.opening, *setup.closing)

    def _prepare(self, connection: "DuckDBPyConnection") -> None:
        for text in (*self._setup.opening, *self._setup.loads):
            connection.execute(text)
        self.loaded = True
        for text in self._setup.secrets:
            self._secret(connection, text)
        for text in (*self._setup.attach, *self._setup.closing):
            connection.execute(text)

    def _all(self, connection: "DuckDBPyConnection") -> dict[str, Any]:
        """Several statements are one transaction; closing the connection undoes what is not committed."""
        asked = [each.verb for each in self._statements if each.text]
        together = len(asked) > 1 and not any(verb in TRANSACTION for verb in asked)
        begun = False
        for statement in self._statements:
            if together and not begun and statement.text and statement.verb not in _SETUP:
                connection.begin()
                begun = True
            self._results.add(self._one(connection, statement))
        if begun:
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
        if not statement.text:  # done before the database was locked
            return no_rows(0)
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


def _plain(statement: Statement) -> bool:
    return not statement.text or (statement.verb in PLAIN
                                  and not (statement.verb in ("CREATE", "DROP") and "secret" in statement.text.lower()))


def refused(message: str) -> Outcome | None:
    """What the guard does not let through, with what would."""
    if "configuration has been locked" in message:
        return failed("duckdb", f"{message}. A task may set {', '.join(duck_guard.FREE)}")
    if not _DISABLED.search(message):
        return None
    return failed("duckdb", f"{message}. SQL may use files in the folders and at the addresses of {SETTING} and of its "
                  "credentials' scopes, and attach PostgreSQL as '' with the secret of an alias")


def _failure(message: str) -> Outcome:
    if found := _EXTENSION.search(message):
        name = found[1] or found[2]
        return failed("extension", f"DuckDB's extension {name} is not on this worker and cannot be downloaded: "
                      "pip install 'noetl-jetstream[duckdb]', or put it into the folder of extensions "
                      "(NOETL_DUCKDB_EXTENSIONS)", details={"reason": message})
    return failed("duckdb", message, retryable=LOCKED in message.lower() or CLOSING in message.lower())
