"""Follows every partition of the log and keeps the read model in PostgreSQL up to date; beside that, it removes what is
old enough (`shared/runtime/retention/`).

It may lag and never leads: it writes one batch per transaction, and holds one connection. Between batches it rests, the
longer the more there was: what comes in half a second of load is one batch, in which a row that changes often is
written once; what comes alone is written at once. It does not rest while more is waiting than it takes at a time.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from services.projector.figures import Figures
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus, Clock, Follower
from shared.errors import Corrupt
from shared.runtime.readmodel.batches import follow, store
from shared.runtime.readmodel.database import Database
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.rebuild import look
from shared.runtime.readmodel.store import Moved, cursor_of
from shared.runtime.retention.keeper import Keeper
from shared.runtime.service.health import figures, hindrance
from shared.runtime.service.settings import BadSettings, Settings

BUSY = 1024    # a batch this large means that more is waiting: no rest
REST_S = 0.5
SOON_S = 0.1
REST_EACH_S = 0.01  # per message: from fifty in half a second on, a partition is written twice in a second

log = structlog.get_logger()


async def serve(
    bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None] | None = None,
    clock: Clock | None = None,
) -> None:
    """Until `stop`. A batch cut short by it is rolled back, and projected by the next start."""
    if not settings.postgres_dsn:
        raise BadSettings("the projector needs a database: set NOETL_POSTGRES_DSN")
    database = Database(settings.postgres_dsn)
    hindrance("postgres", database.trouble)
    told = Figures(bus, clock)
    figures(told.samples, told.ask)
    keeper = Keeper(bus, database, settings, clock) if isinstance(bus, JetStreamBus) and clock is not None else None
    if keeper is not None:
        figures(keeper.told.samples)
    work = asyncio.create_task(_work(bus, database, settings.partitions, ready, told, keeper))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        work.cancel()
        stopping.cancel()
        await asyncio.wait({work, stopping})
        database.close()


async def _work(
    bus: Bus, database: Database, partitions: int, ready: Callable[[], None] | None, told: Figures,
    keeper: Keeper | None,
) -> None:
    await look(database)
    if ready is not None:
        ready()
    try:
        async with asyncio.TaskGroup() as group:
            if keeper is not None:
                group.create_task(keeper.run())
            for partition in range(partitions):
                group.create_task(_keep(bus, database, partition, partitions, told))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _keep(bus: Bus, database: Database, partition: int, partitions: int, told: Figures) -> None:
    live = LiveRows()
    while True:
        after = await database.run(partial(cursor_of, partition=partition))
        told.after[partition] = after
        follower = follow(bus, partition, after)
        try:
            await _follow(follower, database, partition, partitions, after, live, told)
        except Moved as moved:
            log.info("projector.moved", partition=partition, reason=str(moved))
            await look(database)
        except Corrupt as error:
            raise Corrupt(
                f"the read model of partition {partition} is ahead of its log: {error}. "
                "Restore the stream, or rebuild the read model from what is left of it"
            ) from error
        finally:
            await follower.close()


async def _follow(
    follower: Follower, database: Database, partition: int, partitions: int, after: int, live: LiveRows, told: Figures
) -> None:
    while True:
        messages = await follower.batch()
        began = time.monotonic()
        after = await store(database, partition, partitions, messages, after, live)
        told.wrote(partition, after, len(messages), time.monotonic() - began)
        if len(messages) < BUSY:
            await asyncio.sleep(rest(len(messages)))


def rest(count: int) -> float:
    """In seconds, after so many messages."""
    return min(REST_S, max(SOON_S, count * REST_EACH_S))
