"""`kind: snowflake`: SQL over Snowflake's own connector, on a thread, every call a session of its own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, time_limit
from shared.tools.base.threads import on_thread
from shared.tools.scripts.loader import Scripts
from shared.tools.snowflake import session as snowflake_session
from shared.tools.snowflake import text as snowflake_text
from shared.tools.snowflake.session import Session, Stopped
from shared.tools.sql import call as sql_call
from shared.tools.sql.call import BATCH, Results, Rows, no_rows
from shared.tools.sql.text import TRANSACTION, Statement

SPEC = ToolSpec(
    kind="snowflake",
    doc="SQL on Snowflake; needs the extra `snowflake`. Result: {rows, row_count, columns}.",
    keys={
        **sql_call.KEYS,
        "auth": KeySpec("Credential: {account, user, password}, or private_key (PEM, with private_key_passphrase) "
                        "or token instead of the password; also warehouse, database, schema, role."),
        "warehouse": KeySpec("Instead of the credential's."),
        "database": KeySpec("Instead of the credential's."),
        "schema": KeySpec("Instead of the credential's."),
        "role": KeySpec("Instead of the credential's."),
    },
    one_of=sql_call.ONE_OF,
)

CALLS = 8  # at a time; more wait for their turn
CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
READS = frozenset({"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "VALUES"})
WORKER_FILES = frozenset({"PUT", "GET"})
STATUS = ["status"]  # the one column of a statement that only says it is done
RETRYABLE_STATES = ("08", "57")  # no connection, server going down


class SnowflakeTool:
    def __init__(self, options: ToolOptions) -> None:
        self._scripts = Scripts(options)
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="snowflake")

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Call) -> Outcome:
        found = statements(await self._scripts.as_sql(call))
        lib = await asyncio.to_thread(snowflake_session.library)
        arguments = snowflake_session.arguments(call.auth or {}, call.config)
        session = Session(lib, arguments, call.idempotency_key, time_limit(call))
        try:
            results = Results(call.config.get("results"))
            return ok(await on_thread(self._threads, lambda: run_all(session, found, results), session.stop),
                      shape="sql")
        except lib.errors.Error as error:
            return failure(error, session)


def statements(call: Call) -> list[Statement]:
    found = sql_call.statements(call, snowflake_text.insert, snowflake_text.split)
    for statement in found:
        if statement.verb in WORKER_FILES:
            raise BadCall(f"{statement.verb} would use the files of the worker: use a stage of its own, or INSERT")
    return found


def failure(error: Any, session: Session) -> Outcome:
    state = str(getattr(error, "sqlstate", None) or "")
    errno = getattr(error, "errno", None)
    details = {"code": state or None, "errno": errno if isinstance(errno, int) and errno >= 0 else None}
    retryable = state.startswith(RETRYABLE_STATES) or type(error).__name__ == "OperationalError"
    kind = "snowflake" if session.opened else "connect"
    return failed(kind, str(getattr(error, "msg", None) or error), retryable=retryable, details=details)


def run_all(session: Session, found: list[Statement], results: Results) -> dict[str, Any]:
    try:
        session.open()
        together = _together(found)
        if together:
            session.execute("BEGIN")
        for statement in found:
            results.add(_one(session, statement))
        if together:
            session.execute("COMMIT")
    except Stopped:
        pass  # nobody waits for the result
    finally:
        session.close()
    return results.result()


def _together(found: list[Statement]) -> bool:
    """Changes of data are one transaction, unless the author writes transactions himself. What else there
    is (CREATE, USE …) Snowflake commits by itself."""
    verbs = {statement.verb for statement in found}
    return len(found) > 1 and verbs <= CHANGES | READS and not verbs & TRANSACTION


def _one(session: Session, statement: Statement) -> dict[str, Any]:
    cursor = session.execute(statement.text, statement.params)
    if statement.verb in TRANSACTION:
        return no_rows(0)
    columns = [str(column[0]) for column in cursor.description or ()]
    if statement.verb in CHANGES:
        return no_rows(max(int(cursor.rowcount or 0), 0))
    if not columns or (columns == STATUS and statement.verb not in READS):
        return no_rows(0)
    rows = Rows(columns)
    json = snowflake_session.json_columns(cursor)
    while batch := cursor.fetchmany(BATCH):
        rows.add(snowflake_session.with_json(batch, json))
    return rows.result()
