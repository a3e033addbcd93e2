"""The consumers of the command queue: one for each pool of NOETL_POOLS and of `noetl_pools`, paused where people
want that. The queue is in memory, so they are made again with it."""

from collections.abc import Sequence

import structlog

from shared.bus import pool_consumer, topology
from shared.bus.kv import stream_of
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.runtime.stores import pools

log = structlog.get_logger()
RETRY_S = 1.0


class Consumers:
    def __init__(self, bus: Bus, clock: Clock, given: Sequence[str], replicas: int = 1) -> None:
        self._bus, self._clock, self._given, self._replicas = bus, clock, given, replicas

    async def make(self) -> None:
        wanted = await pools.consumers(self._bus, self._given, self._clock.now())
        await pool_consumer.ensure(self._bus, wanted, self._replicas)

    async def follow(self) -> None:
        """For ever: a new pool gets its consumer at once."""
        while True:
            follower = self._bus.follow(stream_of(topology.POOLS), [pools.subject()], 0)
            try:
                while True:
                    await follower.batch()
                    await self.make()
            except NoetlError as error:
                log.warning("consumers.wait", error=str(error))
                await self._clock.sleep(RETRY_S)
            finally:
                await follower.close()
