"""How many workers each pool should have: what people said, or for a pool that scales by demand what that asks for.

`engine.autoscale` decides; here is what it needs to remember. It is in memory: the next leader begins with the number
in the pool's status, and takes it that it was needed until then."""

import structlog

from shared.bus.pool_consumer import Queue
from shared.bus.ports import Clock
from shared.dsl.documents.pools import Pool
from shared.engine.pools import autoscale
from shared.engine.pools.autoscale import Scaling, Trail
from shared.runtime.stores.demand import Demands
from shared.runtime.stores.pools import Entry, Status

log = structlog.get_logger()


class Scales:
    def __init__(self, clock: Clock, demands: Demands) -> None:
        self._clock, self._demands = clock, demands
        self._trails: dict[str, tuple[Scaling, Trail]] = {}

    def desired(self, pool: Pool, entry: Entry, before: Status, queue: Queue | None) -> int | None:
        """None: the demand does not decide. While nothing is delivered, or the demand is not known, it stays as it
        is."""
        asked = pool.scales
        if asked is None or entry.pinned:
            self._trails.pop(pool.name, None)
            return None
        now, scaling = self._clock.now(), Scaling(asked.least, asked.most, asked.target, asked.calm_s)
        known = self._trails.get(pool.name)
        if known is None or known[0] != scaling:
            current = before.desired if before.desired is not None else entry.workers
            known = scaling, autoscale.begin(scaling, current, now)
        demand = self._demands.added(pool.name, queue)
        trail, was = known[1], known[1][0].workers
        if demand is not None and entry.pause_at(now) is None:
            trail = autoscale.follow(scaling, trail, demand.total, now)
        if trail[0].workers != was:
            log.info("pool.scales", pool=pool.name, workers=trail[0].workers, before=was,
                     demand=demand.total if demand is not None else None)
        self._trails[pool.name] = scaling, trail
        return trail[0].workers

    def forget(self, known: set[str]) -> None:
        """Pools that are gone."""
        self._trails = {name: trail for name, trail in self._trails.items() if name in known}
