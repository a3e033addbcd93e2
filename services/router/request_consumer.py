"""The consumer by which routers share the requests. When somebody deletes it, it is made again.

Requests stay in their stream for a week, and where a consumer stands in it is known to the consumer alone. A new one
that began at the beginning would give out the requests of a week: they are refused by the log (ADR 9), but only where
the log still has their executions. So a router remembers up to where everything had been done, and the new one begins
behind that. What had been done beyond it comes again, and is refused as any request that comes twice. A router that has
never seen the consumer does not know, and makes none: it is not ready, and says so.
"""

import structlog
from msgspec.structs import replace

from shared.bus import streams, topology
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError

EVERY_S = 2.0
NAME = "router"
log = structlog.get_logger()


class RequestConsumer:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._floor: int | None = None
        self._is_missing = False
        self.waiting: int | None = None  # requests, as of the last look; None: not known

    def why_not(self) -> str:
        """Why no request can come, or nothing."""
        return f"the consumer {NAME} of {topology.REQUESTS} is not there" if self._is_missing else ""

    async def watch(self) -> None:
        """For ever; cancel to stop."""
        said = ""
        while True:
            try:
                await self.look()
                said = ""
            except NoetlError as error:
                self.waiting = None
                if said != str(error):  # a broker whose permissions are of before refuses it for ever
                    said = str(error)
                    log.warning("requests.unwatched", error=said)
            await self._clock.sleep(EVERY_S)

    async def look(self) -> None:
        found = await self._bus.consumer(topology.REQUESTS, NAME)
        self.waiting = None if found is None else found.pending + found.held
        if found is not None:
            self._floor, self._is_missing = found.floor, False
            return
        if not self._is_missing:
            log.error("requests.consumer_lost", error=self._then())
        self._is_missing = True
        if self._floor is not None:
            await self._make(self._floor)

    def _then(self) -> str:
        if self._floor is None:
            return "`noetlctl admin bootstrap` makes it, and so does `noetlctl up`"
        return f"it is made again, from {self._floor + 1} on"

    async def _make(self, floor: int) -> None:
        (wanted,) = (each for each in topology.wanted().consumers if each.stream == topology.REQUESTS)
        again = topology.Topology((), (replace(wanted, after=floor),), (), 0)
        await streams.ensure(self._bus, again)
        self._is_missing = False
        log.warning("requests.consumer_made", after=floor)
