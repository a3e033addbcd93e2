import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from services.projector import service
from services.projector.service import serve
from shared.bus.ports import Message
from shared.errors import Corrupt, Refused
from shared.runtime.readmodel import database
from shared.runtime.readmodel.batches import MAX_BATCH, MAX_BATCH_BYTES, chunks
from shared.runtime.readmodel.rebuild import rebuild
from shared.runtime.readmodel.schema import migrate, migrations
from shared.runtime.service.settings import BadSettings, Settings
from tests.integration.projector.history import PARTITIONS, Log, random_log
from tests.integration.projector.tables import dump, folded, projected, until_projected
from tests.support.waiting import until

WAIT_S = 20.0


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "REST_S", 0.0)  # which bounds the others


@asynccontextmanager
async def serving(log: Log, dsn: str) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    settings = Settings(postgres_dsn=dsn, partitions=PARTITIONS)
    task = asyncio.create_task(serve(log.bus, settings, stop=stop, ready=ready.set))
    try:
        async with asyncio.timeout(WAIT_S):
            await ready.wait()
            yield
    finally:
        stop.set()
        await task


def test_it_rests_the_longer_the_more_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rests = [service.rest(count) for count in (1, 10, 20, 1000)]
    assert rests == [service.SOON_S, service.SOON_S, 0.2, service.REST_S]


def length(log: Log) -> int:
    return sum(len(log.messages(p)) for p in range(PARTITIONS))


async def all_projected(db: asyncpg.Connection, log: Log) -> None:
    await until(lambda: projected(db), "all is projected, and once", WAIT_S, so=lambda count: count == length(log))


async def test_it_projects_what_the_log_holds_and_what_comes(dsn: str, db: asyncpg.Connection) -> None:
    log, more = random_log(1), random_log(2)
    async with serving(log, dsn):
        await all_projected(db, log)
        for partition in range(PARTITIONS):
            for message in more.messages(partition):
                log.write_raw(partition, message.subject, message.data)
        await all_projected(db, log)
    assert await dump(db) == await folded(db, log)


async def test_cut_off_between_batches_it_goes_on_where_it_was(dsn: str, db: asyncpg.Connection) -> None:
    log = random_log(3, executions=60)
    for part in (4, 3, 2, 1):
        goal = length(log) // part
        async with serving(log, dsn):
            await until_projected(db, goal, WAIT_S)
    assert await dump(db) == await folded(db, log)


async def test_a_lost_connection_loses_nothing(dsn: str, db: asyncpg.Connection) -> None:
    log = random_log(4, executions=60)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = $1"
    async with serving(log, dsn):
        for part in (4, 3, 2):
            goal = length(log) // part
            await until_projected(db, goal, WAIT_S)
            await db.execute(kill, await db.fetchval("SELECT current_database()"))
        await all_projected(db, log)
    assert await dump(db) == await folded(db, log)


async def test_it_waits_for_a_database_that_is_not_there_yet_and_stops_when_asked() -> None:
    stop = asyncio.Event()
    settings = Settings(postgres_dsn="postgresql://postgres@/none?host=/nowhere", partitions=1)
    task = asyncio.create_task(serve(Log(1).bus, settings, stop=stop))
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 0.4)
    assert not task.done()
    stop.set()
    await asyncio.wait_for(task, 2)


async def test_a_cursor_beyond_the_log_halts_it(dsn: str, db: asyncpg.Connection) -> None:
    await db.execute("INSERT INTO noetl.cursor VALUES (1, 99)")
    settings = Settings(postgres_dsn=dsn, partitions=PARTITIONS)
    with pytest.raises(Corrupt, match="read model of partition 1 is ahead of its log"):
        await asyncio.wait_for(serve(Log().bus, settings, stop=asyncio.Event()), WAIT_S)


async def test_it_asks_for_a_database() -> None:
    with pytest.raises(BadSettings, match="NOETL_POSTGRES_DSN"):
        await serve(Log().bus, Settings(), stop=asyncio.Event())


async def test_a_rebuild_gives_the_same_tables(dsn: str, db: asyncpg.Connection) -> None:
    log = random_log(5)
    log.write_raw(0, "noetl.events.0.e.router", b"not a record")
    await rebuild(log.bus, dsn, PARTITIONS)
    before = await dump(db, "cursor", "corrupt")
    await db.execute("UPDATE noetl.step_run SET status = 'failed'; DELETE FROM noetl.record_group WHERE seq > 3")
    await rebuild(log.bus, dsn, PARTITIONS)
    assert await dump(db, "cursor", "corrupt") == before
    assert len(before["corrupt"]) == 1


async def test_a_rebuild_beside_a_running_projector_gives_the_same_tables(dsn: str, db: asyncpg.Connection) -> None:
    log = random_log(6, executions=40)
    async with serving(log, dsn):
        await until_projected(db, length(log) // 2, WAIT_S)
        await rebuild(log.bus, dsn, PARTITIONS)
        await all_projected(db, log)
    assert await dump(db) == await folded(db, log)


async def test_two_projectors_at_once_give_the_same_tables(dsn: str, db: asyncpg.Connection) -> None:
    log = random_log(7, executions=40)
    async with serving(log, dsn), serving(log, dsn):
        await all_projected(db, log)
    assert await dump(db) == await folded(db, log)


async def test_migrations_run_once_also_when_started_together(dsn: str) -> None:
    connections = [await asyncpg.connect(dsn) for _ in range(3)]
    applied = await asyncio.gather(*(migrate(connection) for connection in connections))
    assert sorted(len(each.names) for each in applied) == [0, 0, len(migrations())]
    assert (await migrate(connections[0])).names == []
    await connections[0].execute("INSERT INTO noetl.schema_migration VALUES (9999, 'from tomorrow')")
    with pytest.raises(Refused, match="9999"):
        await migrate(connections[0])
    for connection in connections:
        await connection.close()


def test_a_transaction_is_bounded_in_messages_and_in_bytes() -> None:
    many = [Message("s", b"", seq) for seq in range(1, 2 * MAX_BATCH + 2)]
    assert [len(chunk) for chunk in chunks(many)] == [MAX_BATCH, MAX_BATCH, 1]
    large = [Message("s", b"x" * (MAX_BATCH_BYTES // 2), seq) for seq in range(1, 4)]
    assert [len(chunk) for chunk in chunks(large)] == [2, 1]
    assert [len(chunk) for chunk in chunks([Message("s", b"x" * (MAX_BATCH_BYTES + 1), 1)])] == [1]


async def test_a_misuse_of_the_client_is_not_tried_for_ever(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "FIRST_RETRY_S", 0.0)
    tried: list[asyncpg.Connection] = []

    async def misuse(connection: asyncpg.Connection) -> None:
        tried.append(connection)
        raise asyncpg.InterfaceError("no such thing")

    held = database.Database(dsn)
    with pytest.raises(asyncpg.InterfaceError):
        await held.run(misuse)
    assert len(set(tried)) == database.MAX_CONFUSED
    held.close()
