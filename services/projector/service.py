"""Follows every partition of the log and keeps the read model in PostgreSQL up to date.

It may lag and never leads: it writes one batch per transaction, rests between small ones, and holds
one connection, so that it leaves the cores to the engine.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import structlog

from services.projector.database import Database
from services.projector.migrate import migrate
from services.projector.store import Moved, cursor_of, project
from shared.bus import topology
from shared.bus.ports import Bus, Follower, Message
from shared.errors import Corrupt
from shared.events import subjects
from shared.runtime.settings import BadSettings, Settings

MAX_BATCH = 1024               # messages in a transaction
MAX_BATCH_BYTES = 8 * 1_048_576
BUSY = 1024                    # a batch this large means that more is waiting: no rest
REST_S = 1.0

log = structlog.get_logger()


async def serve(
    bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None] | None = None
) -> None:
    """Until `stop`. A batch cut short by it is rolled back, and projected by the next start."""
    if not settings.postgres_dsn:
        raise BadSettings("the projector needs a database: set NOETL_POSTGRES_DSN")
    database = Database(settings.postgres_dsn)
    work = asyncio.create_task(_work(bus, database, settings.partitions, ready))
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


async def _work(bus: Bus, database: Database, partitions: int, ready: Callable[[], None] | None) -> None:
    for name in await database.run(migrate):
        log.info("projector.migrated", file=name)
    if ready is not None:
        ready()
    try:
        async with asyncio.TaskGroup() as group:
            for partition in range(partitions):
                group.create_task(_keep(bus, database, partition))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _keep(bus: Bus, database: Database, partition: int) -> None:
    while True:
        after = await database.run(partial(cursor_of, partition=partition))
        follower = follow(bus, partition, after)
        try:
            await _follow(follower, database, partition, after)
        except Moved as moved:
            log.info("projector.moved", partition=partition, reason=str(moved))
        except Corrupt as error:
            raise Corrupt(
                f"the read model of partition {partition} is ahead of its log: {error}. "
                "Restore the stream, or rebuild the read model from what is left of it"
            ) from error
        finally:
            await follower.close()


def follow(bus: Bus, partition: int, after: int) -> Follower:
    return bus.follow(topology.events_stream(partition), [f"{subjects.EVENTS}.{partition}.>"], after, lazy=True)


async def _follow(follower: Follower, database: Database, partition: int, after: int) -> None:
    while True:
        messages = await follower.batch()
        after = await store(database, partition, messages, after)
        if len(messages) < BUSY:
            await asyncio.sleep(REST_S)


async def store(database: Database, partition: int, messages: Sequence[Message], after: int) -> int:
    """The sequence up to which the partition is projected."""
    for chunk in chunks(messages):
        if after and chunk[0].seq != after + 1:
            log.error("projector.gap", partition=partition, first=after + 1, last=chunk[0].seq - 1)
        await database.run(partial(project, partition=partition, messages=chunk, after=after))
        after = chunk[-1].seq
    return after


def chunks(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """One transaction's worth each: a bounded number of messages and of bytes."""
    chunk: list[Message] = []
    size = 0
    for message in messages:
        if chunk and (len(chunk) == MAX_BATCH or size + len(message.data) > MAX_BATCH_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += len(message.data)
    if chunk:
        yield chunk
