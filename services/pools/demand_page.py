"""`GET /demand/<pool>`: what an autoscaler asks, on the port of the health endpoint. Every instance answers, not only
the one that leads."""

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.events.bounds import POOL
from shared.runtime.stores import pools
from shared.runtime.stores.demand import Demands
from shared.runtime.stores.documents import NotThere

KEPT_S = 0.2  # whoever asks more often gets the same answer: the broker is not asked again
MAX_KEPT = 1000
Answer = tuple[int, str]


class DemandPage:
    def __init__(self, bus: Bus, clock: Clock, demands: Demands) -> None:
        self._bus, self._clock, self._demands = bus, clock, demands
        self._kept: dict[str, tuple[float, Answer]] = {}

    async def __call__(self, pool: str) -> Answer:
        now = self._clock.now()
        if pool in self._kept and 0 <= now - self._kept[pool][0] < KEPT_S:
            return self._kept[pool][1]
        try:
            answer = await self._answer(pool)
        except NoetlError as error:
            answer = _said(503, error=f"the broker does not answer: {error}")
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[pool] = now, answer
        return answer

    async def _answer(self, pool: str) -> Answer:
        if not POOL.fullmatch(pool):
            return _said(404, error="the address is /demand/<pool>")
        try:
            entry, _ = await pools.find(self._bus, pool)
        except NotThere:
            if await self._bus.consumer(topology.COMMANDS, pool) is None:
                return _said(404, error=f"there is no pool {pool}")
            entry = None
        found = await self._demands.of(pool)
        if found is None:
            return _said(503, error=f"the demand of pool {pool} is not known at the moment")
        asked = found.total if entry is None else entry.asks_for(found.total)
        counts = {"held": found.held, "pending": found.pending, "in_flight": found.in_flight}
        return _said(200, pool=pool, demand=asked, **counts)


def _said(status: int, **fields: object) -> Answer:
    return status, msgspec.json.encode(fields).decode()
