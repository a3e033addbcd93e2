"""The pools service: makes the pools what people want them to be. Several may run; one of them acts."""

import asyncio
from collections.abc import Callable

import structlog

from services.pools.backends import Backend, External
from services.pools.demand_page import DemandPage
from services.pools.kubernetes.backend import KubernetesBackend
from services.pools.kubernetes.place import Place
from services.pools.leader import Leadership
from services.pools.process import HAND_BACK_S, ProcessBackend
from services.pools.reconcile import Reconciler
from shared.bus.permissions import WANTED
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.events import subjects
from shared.runtime.service import health
from shared.runtime.service.background import Tasks, run_until
from shared.runtime.service.settings import Settings
from shared.runtime.service.supervisor import sleep_or_stop
from shared.runtime.stores.demand import Demands

TICK_S = 0.5  # workers and consumers change without notice
SETTLE_S = 15.0  # by then it says that it is ready, whatever the workers do
MARGIN_S = 3.0
log = structlog.get_logger()


class Pools:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock) -> None:
        self._bus, self._settings, self._clock = bus, settings, clock
        self._leadership = Leadership(bus, clock, settings.instance)
        process = ProcessBackend(settings, clock, self._tell)
        self._demands = Demands(bus, clock)
        self._backends: dict[str, Backend] = {
            "process": process, "external": External(), "kubernetes": KubernetesBackend(Place.of(settings), clock),
        }
        self._reconciler = Reconciler(bus, clock, self._backends, self._demands)
        self._changed = asyncio.Event()
        self._telling = Tasks()
        self._began = clock.now()
        self._stands_by = False

    def _tell(self, pool: str, worker: str) -> None:
        """So that schedulers need not wait for its silence. Sent once: if it is lost, they notice by themselves."""
        self._telling.start(self._bus.publish(subjects.ended(pool), f"{pool}.{worker}".encode()))

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        health.page("demand", DemandPage(self._bus, self._clock, self._demands))
        health.figures(lambda: self._reconciler.figures.samples(leads=self._leadership.held))
        await run_until(
            stop, self._look_after(ready), self._hear(), self._demands.listen(), finish=self._end(stop)
        )

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

    async def _hear(self) -> None:
        """What people ask for is done at once; a change that was missed, at the next look."""
        inbox = await self._bus.subscribe(WANTED)
        try:
            while True:
                await inbox.message()
                self._changed.set()
        finally:
            await inbox.close()

    async def _end(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._close()
        await self._leadership.leave()

    async def _close(self) -> None:
        within = max(0.0, self._settings.drain_s - HAND_BACK_S - MARGIN_S)
        await asyncio.gather(*(backend.close(within) for backend in self._backends.values()))


async def serve(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    await Pools(bus, settings, clock).run(stop, ready)
