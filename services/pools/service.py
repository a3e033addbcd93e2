"""The pools service: makes the pools what people want them to be. Several may run; one of them acts."""

import asyncio
from collections.abc import Callable

import structlog

from services.pools.backends import Backend, External
from services.pools.leader import Leadership
from services.pools.process import HAND_BACK_S, ProcessBackend
from services.pools.reconcile import Reconciler
from shared.bus import topology
from shared.bus.kv import stream_of
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.runtime.clock import SystemClock
from shared.runtime.settings import Settings
from shared.runtime.supervise import sleep_or_stop
from shared.runtime.tasks import run_until

TICK_S = 0.5  # workers and consumers change without a word
RETRY_S = 1.0
SETTLE_S = 15.0  # by then it says that it is ready, whatever the workers do
MARGIN_S = 3.0
log = structlog.get_logger()


class Pools:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock) -> None:
        self._bus, self._settings, self._clock = bus, settings, clock
        self._leadership = Leadership(bus, clock, settings.instance)
        self._backends: dict[str, Backend] = {"process": ProcessBackend(settings), "external": External()}
        self._reconciler = Reconciler(bus, clock, self._backends)
        self._changed = asyncio.Event()
        self._began = clock.now()
        self._stands_by = False

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        await run_until(stop, self._look_after(ready), self._follow(), finish=self._end(stop))

    async def _look_after(self, ready: Callable[[], None]) -> None:
        said = False
        while True:
            self._changed.clear()
            try:
                await self._tick()
            except NoetlError as error:
                log.warning("pools.waits", error=str(error))
            late = self._clock.now() - self._began > SETTLE_S
            if not said and (self._reconciler.settled or self._stands_by or late):
                said = True
                ready()
            await sleep_or_stop(self._changed, TICK_S)

    async def _tick(self) -> None:
        led = self._leadership.held
        leads = await self._leadership.look()
        self._stands_by = not leads
        if leads:
            await self._reconciler.look()
        elif led:  # the next leader starts workers of its own
            await self._close()

    async def _follow(self) -> None:
        """What people say is done at once."""
        while True:
            follower = self._bus.follow(stream_of(topology.POOLS), [f"$KV.{topology.POOLS}.pool.*"], 0)
            try:
                while True:
                    await follower.batch()
                    self._changed.set()
            except NoetlError as error:
                log.warning("pools.reread", error=str(error))
                await self._clock.sleep(RETRY_S)
            finally:
                await follower.close()

    async def _end(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._close()
        await self._leadership.leave()

    async def _close(self) -> None:
        within = max(0.0, self._settings.drain_s - HAND_BACK_S - MARGIN_S)
        await asyncio.gather(*(backend.close(within) for backend in self._backends.values()))


async def serve(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    await Pools(bus, settings, SystemClock()).run(stop, ready)
