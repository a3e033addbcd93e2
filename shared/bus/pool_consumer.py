"""The consumer of a pool on the queue of commands: what waits in it, and whether it delivers."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.bus import api, streams, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Bus
from shared.bus.wire import nanoseconds
from shared.events import subjects
from shared.events.stamp import stamp

# An early end of a pause does not wake the pulls that wait; the end of its time does. So a pause is ended by
# letting its time be over in a moment.
WAKE_S = 0.1
FOR_EVER = "2200-01-01T00:00:00Z"


class Queue(Struct, frozen=True):
    """`pending` were never delivered; `in_flight` are with a worker, or were handed back and wait."""

    pending: int
    in_flight: int
    paused_until: str = ""
    last: int = 0  # the sequence delivered last
    floor: int = 0  # up to it the consumer considers all done


async def look(bus: Bus, pool: str) -> Queue | None:
    """None: the pool has no consumer."""
    try:
        found = await _api(bus, api.consumer_info(topology.COMMANDS, pool))
    except NotFound:
        return None
    until = found["config"].get("pause_until", "") if found.get("paused") else ""
    last, floor = found["delivered"]["stream_seq"], found["ack_floor"]["stream_seq"]
    return Queue(found["num_pending"], found["num_ack_pending"], until, last, floor)


async def pause(bus: Bus, pool: str, until: str) -> None:
    await _api(bus, api.consumer_pause(topology.COMMANDS, pool), {"pause_until": until})


async def resume(bus: Bus, pool: str, now: float) -> None:
    await pause(bus, pool, moment(now + WAKE_S))


async def oldest(bus: Bus, pool: str, queue: Queue) -> float | None:
    """When the command that waits longest came."""
    if not queue.pending:
        return None
    after = {"seq": queue.last + 1, "next_by_subj": subjects.commands_of(pool)}
    try:
        found = await _api(bus, api.message_get(topology.COMMANDS), after)
    except NotFound:
        return None
    return nanoseconds(found["message"]["time"]) / 1e9


async def ensure(bus: Bus, pools: Mapping[str, str], provision: topology.Provision = streams.ONE_COPY) -> None:
    """The queue with a consumer for every pool; the value says until when a new one is paused."""
    wanted = streams.queue_only(topology.wanted(tuple(pools)))
    consumers = tuple(replace(each, paused_until=pools[each.name]) for each in wanted.consumers)
    queue = topology.Topology(wanted.streams, consumers, (), wanted.partitions)
    await streams.ensure(bus, queue, provision)


async def names(bus: Bus) -> list[str]:
    """Of every pool that has a consumer, asked page by page."""
    found: list[str] = []
    while True:
        page = await _api(bus, api.consumer_names(topology.COMMANDS), {"offset": len(found)})
        more = page.get("consumers") or []
        found += more
        if not more or len(found) >= page["total"]:
            return found


async def remove(bus: Bus, pool: str) -> None:
    with suppress(NotFound):
        await _api(bus, api.consumer_delete(topology.COMMANDS, pool))


async def discard(bus: Bus) -> None:
    """The queue of all pools, with its consumers. What is in it follows from the log."""
    if isinstance(bus, MemoryBus):
        bus.broker.lose(topology.COMMANDS)
        return
    with suppress(NotFound):
        await _api(bus, api.stream_delete(topology.COMMANDS))


def moment(at: float) -> str:
    """A time as the broker writes it; 0 is for ever."""
    return stamp(at) if at else FOR_EVER


async def _api(bus: Bus, subject: str, body: object = None) -> dict[str, Any]:
    assert isinstance(bus, JetStreamBus), f"no consumers to look at on {type(bus).__name__}"
    return await bus.requests.api(subject, body)
