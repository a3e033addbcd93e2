"""The read model from nothing: emptied, then projected again from the first sequence."""

from collections.abc import Callable
from functools import partial

import asyncpg
import structlog

from shared.bus import topology
from shared.bus.ports import Bus
from shared.runtime.readmodel.batches import follow, store
from shared.runtime.readmodel.database import Database
from shared.runtime.readmodel.schema import migrate
from shared.runtime.readmodel.store import SQL, Moved, cursor_of

log = structlog.get_logger()
Progress = Callable[[int, int, int], None]  # partition, sequence, the last one


async def rebuild(bus: Bus, dsn: str, partitions: int, progress: Progress = lambda *_: None) -> None:
    """Up to what the log held when it began. A projector that runs meanwhile sees its cursor moved
    and joins in: each batch is projected by whoever gets the cursor's lock."""
    database = Database(dsn)
    try:
        await database.run(migrate)
        await database.run(_empty)
        for partition in range(partitions):
            await _project(bus, database, partition, partitions, progress)
    finally:
        database.close()


async def _empty(connection: asyncpg.Connection) -> None:
    await connection.execute(SQL["truncate"])


async def _project(bus: Bus, database: Database, partition: int, partitions: int, progress: Progress) -> None:
    last = await bus.last_seq(topology.events_stream(partition))
    while (after := await database.run(partial(cursor_of, partition=partition))) < last:
        follower = follow(bus, partition, after)
        try:
            while after < last:
                after = await store(database, partition, partitions, await follower.batch(), after)
                progress(partition, min(after, last), last)
        except Moved as moved:
            log.info("projector.moved", partition=partition, reason=str(moved))
        finally:
            await follower.close()
