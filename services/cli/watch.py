"""The log of one execution, as records: all there is, or followed as it grows."""

from collections.abc import AsyncGenerator

from shared.bus.ports import Bus
from shared.bus.topology import events_stream
from shared.events import subjects
from shared.events.record import Record, decode


async def history(bus: Bus, execution_id: str, partitions: int) -> list[Record]:
    stream, subject = _where(execution_id, partitions)
    return [decode(message.data) for message in await bus.read(stream, [subject])]


async def follow(bus: Bus, execution_id: str, partitions: int) -> AsyncGenerator[list[Record], None]:
    """Batches of records in log order, from the first one on, without an end."""
    stream, subject = _where(execution_id, partitions)
    follower = bus.follow(stream, [subject], 0)
    try:
        while True:
            yield [decode(message.data) for message in await follower.batch()]
    finally:
        await follower.close()


def _where(execution_id: str, partitions: int) -> tuple[str, str]:
    partition = subjects.partition_of(execution_id, partitions)
    return events_stream(partition), subjects.events_of(partition, execution_id)
