"""The read model from nothing: emptied, then projected again from the first sequence."""

from collections.abc import Callable
from functools import partial

import asyncpg
import structlog

from shared.bus import topology
from shared.bus.ports import Bus
from shared.runtime.readmodel.batches import follow, store
from shared.runtime.readmodel.database import Database
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.schema import migrate
from shared.runtime.readmodel.statements import SQL
from shared.runtime.readmodel.store import Moved, cursor_of

log = structlog.get_logger()
Progress = Callable[[int, int, int], None]  # partition, sequence, the last one


async def rebuild(bus: Bus, dsn: str, partitions: int, progress: Progress = lambda *_: None) -> None:
    """Up to what the log held when it began. A projector that runs meanwhile sees its cursor moved
    and joins in: each batch is projected by whoever gets the cursor's lock."""
    database = Database(dsn)
    try:
        await look(database)
        await database.run(_empty)
        for partition in range(partitions):
            await _project(bus, database, partition, partitions, progress)
    finally:
        database.close()


async def look(database: Database) -> None:
    """At the schema: brings it up to date, unless a later build has done so. Refused if this one is too old for it."""
    found = await database.run(migrate)
    for name in found.names:
        log.info("projector.migrated", file=name)
    if found.emptied:
        log.warning("projector.emptied", reason="its tables have changed: the read model is written again from the log")
    if found.later and database.schema != found.version:
        log.warning("projector.later_schema", version=found.version, reason="a later build has changed the read model; "
                    "what it has added is written when that build is back")
    database.schema = found.version


async def _empty(connection: asyncpg.Connection) -> None:
    await connection.execute(SQL["truncate"])


async def _project(bus: Bus, database: Database, partition: int, partitions: int, progress: Progress) -> None:
    last, live = await bus.last_seq(topology.events_stream(partition)), LiveRows()
    while (after := await database.run(partial(cursor_of, partition=partition))) < last:
        follower = follow(bus, partition, after)
        try:
            while after < last:
                after = await store(database, partition, partitions, await follower.batch(), after, live)
                progress(partition, min(after, last), last)
        except Moved as moved:
            log.info("projector.moved", partition=partition, reason=str(moved))
            await look(database)
        finally:
            await follower.close()
