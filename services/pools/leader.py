"""The lease of the one reconciler that acts: an entry in KV that its holder writes again and again.

Another one takes it over when it has not changed for LEASE_S by the other's own clock, so clocks need not agree.
Both writes compare and set, so there is one holder."""

import msgspec
import structlog

from shared.bus import topology
from shared.bus.ports import Bus, Clock, Entry
from shared.errors import Conflict, NoetlError
from shared.runtime.stores.pools import LEADER, Leader, leader

LEASE_S = 6.0
RENEW_S = 2.0
log = structlog.get_logger()


class Leadership:
    def __init__(self, bus: Bus, clock: Clock, instance: str) -> None:
        self._bus, self._clock, self._instance = bus, clock, instance
        self._revision = 0
        self._renewed = 0.0
        self._seen: tuple[int, float] = (0, 0.0)  # another's lease, and since when it is as it is
        self.held = False

    async def look(self) -> bool:
        """Whether this instance leads now. While the broker does not answer, it stays as it is: nobody else can get the
        lease either."""
        now = self._clock.now()
        if self.held and now - self._renewed < RENEW_S:
            return True
        try:
            found = await self._bus.kv_get(topology.POOLS, LEADER)
            self.held = await self._take(found, now)
        except Conflict:
            self.held = False
        return self.held

    async def _take(self, found: Entry | None, now: float) -> bool:
        holder = leader(found.value).holder if found is not None else ""
        if found is not None and holder != self._instance and not self._is_over(found, now):
            if self.held:
                log.warning("pools.lost_the_lead", to=holder)
            return False
        revision = found.revision if found is not None else 0
        lease = msgspec.json.encode(Leader(self._instance, now, round(self._clock.skew, 1)))
        self._revision = await self._bus.kv_put(topology.POOLS, LEADER, lease, expected=revision)
        self._renewed = now
        if not self.held:
            log.info("pools.leads", before=holder)
        return True

    def _is_over(self, found: Entry, now: float) -> bool:
        if self._seen[0] != found.revision:
            self._seen = found.revision, now
        return now - self._seen[1] > LEASE_S

    async def leave(self) -> None:
        """So that the next one need not wait."""
        if not self.held:
            return
        self.held = False
        try:
            await self._bus.kv_delete(topology.POOLS, LEADER)
        except NoetlError as error:
            log.warning("pools.lease_stays", error=str(error))
