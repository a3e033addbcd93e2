"""The consumers of the command queue: one for each pool of NOETL_POOLS and of `noetl_pools`, paused where people
want that. The queue is in memory, so they are made again with it."""

from collections.abc import Sequence

import structlog

from shared.bus import pool_consumer, topology
from shared.bus.kv import stream_of
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.runtime import pools

log = structlog.get_logger()
RETRY_S = 1.0


class Consumers:
    def __init__(self, bus: Bus, clock: Clock, given: Sequence[str]) -> None:
        self._bus, self._clock, self._given = bus, clock, given

    async def make(self) -> None:
        await pool_consumer.ensure(self._bus, await pools.consumers(self._bus, self._given, self._clock.now()))

    async def follow(self) -> None:
        """For ever: a new pool gets its consumer at once."""
        while True:
            follower = self._bus.follow(stream_of(topology.POOLS), [f"$KV.{topology.POOLS}.pool.*"], 0)
            try:
                while True:
                    await follower.batch()
                    await self.make()
            except NoetlError as error:
                log.warning("consumers.wait", error=str(error))
                await self._clock.sleep(RETRY_S)
            finally:
                await follower.close()
