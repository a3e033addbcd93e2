"""The real process on a real broker and a real database."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import PARTITIONS
from shared.events import subjects
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.readmodel.rebuild import rebuild
from tests.integration.projector.history import Log, random_log
from tests.integration.projector.tables import dump, folded, projected, until_projected

WAIT_S = 30.0


@asynccontextmanager
async def projector(server: NatsServer, dsn: str, **extra: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environ = {
        **os.environ,
        "NOETL_NATS_URL": server.url,
        "NOETL_NATS_USER": "projector",
        "NOETL_NATS_PASSWORD": server.passwords["projector"],
        "NOETL_POSTGRES_DSN": dsn,
        **extra,
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.projector", env=environ)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def publish(bus: JetStreamBus, seed: int) -> Log:
    """A history in the real log, and the same one to fold."""
    log = Log(PARTITIONS)
    source = random_log(seed, executions=60)
    for messages in source.streams.values():
        for message in messages:
            place = subjects.parse_event(message.subject)
            partition = subjects.partition_of(place.execution_id, PARTITIONS)
            subject = subjects.event(partition, place.execution_id, place.writer, place.pool)
            stored = log.write_raw(partition, subject, message.data)
            assert await bus.append(subject, message.data) == stored.seq
    return log


async def test_killed_and_started_again_it_ends_with_the_tables_of_the_log(
    nats_server: NatsServer, admin: JetStreamBus, dsn: str, db: asyncpg.Connection
) -> None:
    log = await publish(admin, 11)
    total = sum(map(len, log.streams.values()))
    async with projector(nats_server, dsn) as process:
        await until_projected(db, 1, WAIT_S)
        process.kill()
        await process.wait()
    async with projector(nats_server, dsn) as process:
        await until_projected(db, total, WAIT_S)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), WAIT_S) == 0
    assert await dump(db) == await folded(db, log)

    before = await dump(db, "cursor")
    await rebuild(admin, dsn, PARTITIONS)
    assert await dump(db, "cursor") == before


async def test_a_log_that_lost_its_end_stops_the_process_with_a_reason(
    nats_server: NatsServer, admin: JetStreamBus, dsn: str, db: asyncpg.Connection
) -> None:
    await db.execute("INSERT INTO noetl.cursor VALUES (2, 1000)")
    async with projector(nats_server, dsn) as process:
        assert await asyncio.wait_for(process.wait(), WAIT_S) == 1
    assert await projected(db) == 1000
    assert await admin.last_seq("NOETL_EVENTS_2") == 0
