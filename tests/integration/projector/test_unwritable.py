"""A PostgreSQL that takes no writes for a while: the projector waits, says so, and goes on by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from shared.runtime.readmodel import failures
from tests.integration.projector.tables import dump, folded, until_projected
from tests.integration.projector.test_process import projector, publish
from tests.support.waiting import until

WAIT_S = 60.0
READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
WRITABLE = "ALTER SYSTEM RESET default_transaction_read_only"


@asynccontextmanager
async def read_only(db: asyncpg.Connection) -> AsyncIterator[None]:
    """For everyone but this connection, as after a failover to a replica."""
    await db.execute("SET default_transaction_read_only = off")
    await db.execute(READ_ONLY)
    try:
        await db.fetchval("SELECT pg_reload_conf()")
        yield
    finally:
        await db.execute(WRITABLE)
        await db.fetchval("SELECT pg_reload_conf()")


async def readiness(port: int) -> str:
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return ""
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        return (await reader.read()).decode()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def until_said(port: int, text: str) -> None:
    await until(lambda: readiness(port), f"it says {text!r}", WAIT_S, so=lambda answer: text in answer)


async def test_a_read_only_database_does_not_end_it(
    nats_server: NatsServer, admin: JetStreamBus, dsn: str, db: asyncpg.Connection
) -> None:
    port = free_port()
    async with projector(nats_server, dsn, NOETL_HEALTH_PORT=str(port)) as process:
        await until_said(port, " 200 ")
        async with read_only(db):
            log = await publish(admin, 12)
            await until_said(port, "PostgreSQL is read-only")
            assert " 503 " in await readiness(port)
            assert process.returncode is None
        await until_projected(db, sum(map(len, log.streams.values())), WAIT_S)
        await until_said(port, " 200 ")
    assert await dump(db) == await folded(db, log)


async def test_started_on_a_read_only_database_it_makes_its_tables_later(
    nats_server: NatsServer, admin: JetStreamBus, dsn: str
) -> None:
    assert await admin.last_seq("NOETL_EVENTS_0") == 0
    port, connection = free_port(), await asyncpg.connect(dsn)
    try:
        async with projector(nats_server, dsn, NOETL_HEALTH_PORT=str(port)) as process:
            async with read_only(connection):
                await until_said(port, "PostgreSQL is read-only")
                assert process.returncode is None
            await until_said(port, " 200 ")
            assert await connection.fetchval("SELECT to_regclass('noetl.cursor') IS NOT NULL")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (asyncpg.ReadOnlySQLTransactionError("x"), "is read-only"),
        (asyncpg.DiskFullError("could not extend file"), "disk is full"),
        (asyncpg.TooManyConnectionsError("x"), "no connection left"),
        (asyncpg.AdminShutdownError("x"), "is shutting down"),
        (asyncpg.CannotConnectNowError("x"), "is starting"),
        (asyncpg.PostgresIOError("could not fsync"), "could not fsync"),
        (asyncpg.DeadlockDetectedError("x"), "x"),
        (asyncpg.ObjectNotInPrerequisiteStateError("x"), "x"),
        (ConnectionRefusedError("refused"), "no answer"),
        (TimeoutError(), "no answer"),
    ],
)
def test_what_passes_is_waited_for_and_named(error: Exception, says: str) -> None:
    assert isinstance(error, failures.PASSING)
    assert says in failures.reason(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InvalidPasswordError("x"), asyncpg.InvalidCatalogNameError("x"),
        asyncpg.InsufficientPrivilegeError("x"),
        asyncpg.UndefinedTableError("x"), asyncpg.UndefinedColumnError("x"), asyncpg.NotNullViolationError("x"),
    ],
)  # fmt: skip
def test_what_is_ours_or_the_operators_is_not_waited_for(error: Exception) -> None:
    assert not isinstance(error, failures.PASSING)
