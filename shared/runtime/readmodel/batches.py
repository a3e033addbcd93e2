"""A partition of the log, followed and written to the read model in batches of bounded size."""

from collections.abc import Iterator, Sequence
from functools import partial

import structlog

from shared.bus import topology
from shared.bus.ports import Bus, Follower, Message
from shared.events import subjects
from shared.runtime.readmodel.database import Database
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.store import project

MAX_BATCH = 1024  # messages in a transaction
MAX_BATCH_BYTES = 8 * 1_048_576

log = structlog.get_logger()


def follow(bus: Bus, partition: int, after: int) -> Follower:
    return bus.follow(topology.events_stream(partition), [f"{subjects.EVENTS}.{partition}.>"], after, lazy=True)


async def store(
    database: Database, partition: int, partitions: int, messages: Sequence[Message], after: int, live: LiveRows
) -> int:
    """The sequence up to which the partition is projected."""
    for chunk in chunks(messages):
        if after and chunk[0].seq != after + 1:
            log.error("projector.gap", partition=partition, first=after + 1, last=chunk[0].seq - 1)
        write = partial(project, partition=partition, partitions=partitions, messages=chunk, after=after, live=live,
                        schema=database.schema)
        await database.run(write)
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
