"""Whether executions are over, as their logs say."""

import asyncio
from collections.abc import Iterable
from typing import Literal

from shared.bus import topology
from shared.bus.ports import Bus
from shared.events import subjects
from shared.events.bounds import EXECUTION_ID
from shared.events.model import PlaybookProcessed
from shared.events.record import decode


async def standing(bus: Bus, execution_id: str, partitions: int) -> Literal["unknown", "running", "over"]:
    """Its last decision tells: with the end of a playbook nothing more is decided. `unknown`: no router
    has begun it, or could."""
    if not EXECUTION_ID.fullmatch(execution_id):  # a wildcard would be every execution
        return "unknown"
    partition = subjects.partition_of(execution_id, partitions)
    subject = subjects.event(partition, execution_id, "router")
    last = await bus.get(topology.events_stream(partition), subject)
    if last is None:
        return "unknown"
    events = decode(last, partitions).events
    return "over" if any(isinstance(event, PlaybookProcessed) for event in events) else "running"


async def standings(
    bus: Bus, execution_ids: Iterable[str], partitions: int
) -> dict[str, Literal["unknown", "running", "over"]]:
    asked = list(execution_ids)
    return dict(zip(asked, await asyncio.gather(*(standing(bus, each, partitions) for each in asked)), strict=True))
