"""What the pools of a stack provide, for steps that require it, and which of them each step gets."""

from collections.abc import Mapping, Sequence

import structlog

from shared.bus.ports import Bus
from shared.dsl.model.plan import Step
from shared.engine.pools import placement
from shared.engine.pools.placement import Offer, Unplaced
from shared.errors import Corrupt
from shared.runtime.stores import pools

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


def choose(steps: Mapping[str, Step], offers: Sequence[Offer]) -> dict[str, str] | str:
    """By step; the reason, which is recorded and which people read, when a step gets none."""
    found = placement.choose(steps, offers)
    return _reason(found) if isinstance(found, Unplaced) else found


def _reason(found: Unplaced) -> str:
    there = ", ".join(found.pools) or "none with a document"
    return (f"no pool provides {' and '.join(found.requires)}, which step {found.step} requires "
            f"(pools: {there}; noetlctl pool list -o wide shows what each provides)")
