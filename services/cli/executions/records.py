"""The log of one execution as records, without their sequences: all there are, or followed as it grows."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from services.cli.executions import logbook
from shared.bus.ports import Bus
from shared.events.record import Record


async def history(bus: Bus, execution_id: str, partitions: int) -> list[Record]:
    """All records there are; none when nobody knows the execution."""
    return [record for _, record in await logbook.entries(bus, execution_id, partitions)]


async def follow(bus: Bus, execution_id: str, partitions: int) -> AsyncGenerator[list[Record], None]:
    """Batches of records in log order, from the first one on, without an end."""
    async with aclosing(logbook.follow(bus, execution_id, partitions)) as batches:
        async for batch in batches:
            yield [record for _, record in batch]
