"""The demand of a pool: what schedulers hold back, what waits in its queue, and what its workers have.

1. A scheduler's word replaces its last one; several add up. One that has not been heard for FORGOTTEN_S counts for
   nothing: it has died, and whoever has its executions now says what it holds.
2. After a start nothing is known before every scheduler had the time to say its figures once (LISTEN_S). Until then,
   and while the broker does not answer or the queue is not there, the demand is unknown, which is not zero: whoever
   scales by it leaves things as they are.
"""

import structlog
from msgspec import Struct

from shared.bus import topology
from shared.bus.pool_consumer import Queue
from shared.bus.ports import Bus, Clock
from shared.errors import Corrupt
from shared.events import demand, subjects

FORGOTTEN_S = 10.0  # it is said again every 3 s
LISTEN_S = 4.0
MAX_SCHEDULERS = 1000
log = structlog.get_logger()


class Demand(Struct, frozen=True):
    """`held`: by schedulers. `pending`: in the queue. `in_flight`: with workers, or handed back."""

    held: int
    pending: int
    in_flight: int

    @property
    def total(self) -> int:
        return self.held + self.pending + self.in_flight


class Heard(Struct, frozen=True):
    pools: dict[str, int]
    at: float


class Demands:
    """Hears what schedulers say while `listen` runs."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._heard: dict[str, Heard] = {}
        self._since: float | None = None  # when listening began, or began again over another connection
        self._over = 0

    async def listen(self) -> None:
        """For ever; cancel to stop."""
        inbox = await self._bus.subscribe(subjects.demand("*"))
        self._since, self._over = self._clock.now(), self._bus.connections
        try:
            while True:
                message = await inbox.message()
                self._take(message.subject.rpartition(".")[2], message.data)
        finally:
            self._since = None
            await inbox.close()

    def _take(self, instance: str, data: bytes) -> None:
        try:
            held = demand.decode(instance, data)
        except Corrupt as error:
            log.warning("demand.unreadable", error=str(error))
            return
        self._forget()
        if instance in self._heard or len(self._heard) < MAX_SCHEDULERS:
            self._heard[instance] = Heard(held.pools, self._clock.now())

    def _forget(self) -> None:
        oldest = self._clock.now() - FORGOTTEN_S
        self._heard = {instance: heard for instance, heard in self._heard.items() if heard.at > oldest}

    def held(self, pool: str) -> int | None:
        """None: not known yet."""
        if self._since is None:
            return None
        if self._bus.connections != self._over:  # what was said meanwhile was not heard
            self._since, self._over = self._clock.now(), self._bus.connections
        if self._clock.now() - self._since < LISTEN_S:
            return None
        self._forget()
        return sum(heard.pools.get(pool, 0) for heard in self._heard.values())

    def added(self, pool: str, queue: Queue | None) -> Demand | None:
        """None: not known, because schedulers were not heard, or there is no queue at the moment."""
        return None if queue is None else self._with(pool, queue.pending, queue.in_flight)

    async def of(self, pool: str) -> Demand | None:
        queue = await self._bus.consumer(topology.COMMANDS, pool)
        return None if queue is None else self._with(pool, queue.pending, queue.held)

    def _with(self, pool: str, pending: int, in_flight: int) -> Demand | None:
        held = self.held(pool)
        return None if held is None else Demand(held, pending, in_flight)
