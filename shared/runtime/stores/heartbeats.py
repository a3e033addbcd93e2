"""The beats of all workers. One that cannot be read is skipped, and reported in the
log once for each key."""

from collections.abc import Mapping

import structlog

from shared.bus import topology
from shared.bus.ports import Bus
from shared.errors import Corrupt
from shared.events import beat as beats
from shared.events.beat import Beat
from shared.events.letter import short

log = structlog.get_logger()
MAX_REMEMBERED = 1000  # keys of unreadable beats; then all are forgotten, and reported once more
MAX_SHOWN = 200


class Unreadable:
    """The keys that were reported already."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, key: str, error: Corrupt) -> bool:
        """False: it was reported before."""
        if key in self._told:
            return False
        if len(self._told) >= MAX_REMEMBERED:
            self._told.clear()
        self._told.add(key)
        log.warning("beat.unreadable", worker=short(key, MAX_SHOWN), error=short(str(error), MAX_SHOWN))
        return True

    def forget(self, key: str) -> None:
        """A beat that can be read: the next that cannot is news."""
        self._told.discard(key)


async def read_all(bus: Bus, unreadable: Unreadable | None = None) -> dict[str, Beat]:
    """By key: `<pool>.<worker>`."""
    return readable(await bus.kv_all(topology.WORKERS), unreadable or Unreadable())


def readable(bucket: Mapping[str, bytes], unreadable: Unreadable) -> dict[str, Beat]:
    """Of the entries of the bucket."""
    found: dict[str, Beat] = {}
    for key, data in bucket.items():
        try:
            found[key] = beats.decode(key, data)
        except Corrupt as error:
            unreadable.tell(key, error)
        else:
            unreadable.forget(key)
    return found


async def by_pool(bus: Bus, unreadable: Unreadable | None = None) -> dict[str, list[Beat]]:
    found: dict[str, list[Beat]] = {}
    for beat in (await read_all(bus, unreadable)).values():
        found.setdefault(beat.pool, []).append(beat)
    return found
