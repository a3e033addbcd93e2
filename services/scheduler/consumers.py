"""The consumers of the command queue: one for each pool of NOETL_POOLS and of `noetl_pools`, paused where people
want that. The queue is in memory, so they are made again with it.

1. A pool without a consumer gets one, as long as the queue has no command of it.
2. If it has, a consumer was there and somebody deleted it. With it went the knowledge of what had been delivered and
   how often: a new one would deliver what workers hold as if for the first time, under the very epoch they hold it by,
   and nothing could tell the two apart. So the whole queue is discarded. Every scheduler notices that as the loss it is
   (`queue_loss.py`), and what no live worker holds is issued again, as messages with epochs of their own.
3. It is discarded once that was so in two looks: a pool that is being deleted may still be wanted for those who read
   late. Commands for a pool that never had a consumer look the same, and it costs them a moment.
"""

from collections.abc import Collection, Sequence

import structlog

from shared.bus import pool_consumer, topology
from shared.bus.codes import NotFound
from shared.bus.kv import stream_of
from shared.bus.ports import Bus, Clock
from shared.bus.streams import ONE_COPY
from shared.bus.topology import Provision
from shared.errors import NoetlError
from shared.events import subjects
from shared.runtime.stores import pools

log = structlog.get_logger()
RETRY_S = 1.0
LOOK_S = 2.0


class Consumers:
    def __init__(self, bus: Bus, clock: Clock, given: Sequence[str], provision: Provision = ONE_COPY) -> None:
        self._bus, self._clock, self._given, self._provision = bus, clock, given, provision
        self._lost: frozenset[str] = frozenset()
        self._told: frozenset[str] = frozenset()

    async def make(self) -> None:
        """Those of rule 2 are left to `watch`."""
        wanted = await self._wanted()
        lost = await self._with_commands(await self._without(wanted))
        rest = {pool: until for pool, until in wanted.items() if pool not in lost}
        await pool_consumer.ensure(self._bus, rest, self._provision)

    async def _wanted(self) -> dict[str, str]:
        return await pools.consumers(self._bus, self._given, self._clock.now())

    async def _without(self, wanted: Collection[str]) -> list[str]:
        """A consumer."""
        try:
            return [pool for pool in wanted if await self._bus.consumer(topology.COMMANDS, pool) is None]
        except NotFound:
            return list(wanted)

    async def _with_commands(self, found: Collection[str]) -> frozenset[str]:
        try:
            return frozenset(
                [pool for pool in found if await self._bus.find(topology.COMMANDS, subjects.commands_of(pool))])
        except NotFound:  # no queue at all
            return frozenset()

    async def watch(self) -> None:
        """For ever: a consumer that is gone comes again."""
        while True:
            try:
                await self._look()
            except NoetlError as error:
                log.warning("consumers.wait", error=str(error))
            await self._clock.sleep(LOOK_S)

    async def _look(self) -> None:
        missing = await self._without(await self._wanted())
        lost = await self._with_commands(missing)
        twice, self._lost = lost & self._lost, lost
        if twice - self._told:
            log.error("queue.consumer_lost", pools=sorted(twice), then="the queue is made again")
        self._told = twice
        if twice:
            await pool_consumer.discard(self._bus)
        elif len(missing) > len(lost):
            await self.make()

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
