"""What the pools of a stack provide, for steps that require it."""

import structlog

from shared.bus.ports import Bus
from shared.engine.offers import Offer
from shared.errors import Corrupt
from shared.runtime import pools

log = structlog.get_logger()


async def read(bus: Bus, now: float) -> list[Offer]:
    """Of every pool that is not being deleted."""
    found = []
    for name, entry in (await pools.everything(bus)).items():
        if entry.deleting:
            continue
        try:
            provides = frozenset(pools.parse(entry).provides)
        except Corrupt as error:
            log.error("pool.unreadable", pool=name, error=str(error))
            continue
        found.append(Offer(name, provides, entry.pause_at(now) is not None))
    return found
