"""How much room the workers of each pool have, according to their beats."""

from collections.abc import Callable

from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Clock
from shared.events.beat import Beat

UNKNOWN_SLOTS = 64  # of a pool whose workers have not been heard yet
FIRSTS = 4  # commands under way for every slot of the pool, at most


class Heard(Struct, frozen=True):
    pool: str
    slots: int
    room: int
    at: float


class Rooms:
    """`share` is the fraction of all executions that this scheduler looks after."""

    def __init__(self, clock: Clock, share: Callable[[], float], changed: Callable[[], None]) -> None:
        self._clock, self._share, self._changed = clock, share, changed
        self._heard: dict[str, Heard] = {}
        self._bounds: dict[str, tuple[int, int]] = {}  # of pools, as long as nothing else is heard,
        self._by = 0.0  # by this share

    def bounds(self, pool: str) -> tuple[int, int]:
        """How many commands may be under way at most, and how many beyond the first of each family."""
        share = self._share()
        if share != self._by:
            self._bounds, self._by = {}, share
        found = self._bounds.get(pool)
        if found is None:
            found = self._bounds[pool] = self._counted(pool, share)
        return found

    def _counted(self, pool: str, share: float) -> tuple[int, int]:
        slots, room, known = 0, 0, False
        for heard in self._heard.values():
            if heard.pool == pool:
                slots, room, known = slots + heard.slots, room + heard.room, True
        if not known:
            slots = room = UNKNOWN_SLOTS
        return _part(FIRSTS * slots, share), _part(room, share)

    def forget_silent(self) -> None:
        oldest = self._clock.now() - topology.WORKER_TTL_S
        self._heard = {key: heard for key, heard in self._heard.items() if heard.at > oldest}
        self._bounds = {}

    def ended(self, worker: str) -> None:
        self._heard.pop(worker, None)
        self._bounds = {}

    def heard(self, worker: str, beat: Beat) -> None:
        if beat.draining:  # it accepts nothing more
            self.ended(worker)
            return
        known = self._heard.get(worker)
        room = beat.room or beat.slots
        self._heard[worker] = Heard(beat.pool, beat.slots, room, self._clock.now())
        self._bounds = {}
        if known is None or known.room != room:
            self._changed()


def _part(whole: int, share: float) -> int:
    return max(1, round(whole * share))
