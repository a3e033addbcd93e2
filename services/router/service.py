"""The router: tokens, arcs, completion; and the entry of execution requests."""

import asyncio
from collections.abc import Callable, Iterator

from services.router.api import Api
from services.router.capacity import Room
from services.router.notes import Notes
from services.router.request_consumer import RequestConsumer
from services.router.requests import Requests
from shared.bus.ports import Bus, Clock
from shared.engine.routing.core import RouterCore
from shared.engine.routing.state import Execution
from shared.runtime.control.burials import ORIGIN
from shared.runtime.control.figures import Figures
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.load_pacing import Loads
from shared.runtime.control.partitions import Partitions
from shared.runtime.control.shell import Shell
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.service import metric_names as names
from shared.runtime.service.background import run_until
from shared.runtime.service.health import figures, hindrance
from shared.runtime.service.metrics import Sample
from shared.runtime.service.settings import Settings
from shared.runtime.stores.plans import Plans
from shared.runtime.stores.readiness import Readiness


class Router:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock) -> None:
        self.room = Room()
        self._plans = Plans(bus)
        self._notes = Notes(bus, clock, settings.partitions)
        core = RouterCore(self._plans)
        around = Surroundings(
            bus=bus, clock=clock, partitions=settings.partitions, core=core, drafting=core, plans=self._plans,
            send=self._notes.send, loads=Loads(), quota=Quota(clock.now, ORIGIN),
        )
        self.counts = around.counts
        self.partitions: Partitions[Execution] = Partitions(
            bus, clock, "router", settings.instance, settings.partitions,
            lambda partition: Shell(around, partition),
        )
        self.requests = Requests(
            bus, clock, self._plans, settings.partitions, self._adopt, self._notes, self.room,
            Readiness(bus, settings.pools), settings.retention)
        self.consumer = RequestConsumer(bus, clock)
        self.api = Api(bus, clock)

    def samples(self) -> Iterator[Sample]:
        """What the router tells of itself beside what deciders do."""
        yield Sample(names.STARTED, self.requests.started)
        yield Sample(names.REQUESTS, self.requests.taken)
        if self.consumer.waiting is not None:
            yield Sample(names.REQUESTS_PENDING, self.consumer.waiting)
        if (found := self.room.found) is not None:
            yield Sample(names.STORE_USED, found.used)
            if found.limit:
                yield Sample(names.STORE_LIMIT, found.limit)

    def _adopt(self, partition: int, execution_id: str, state: Execution) -> None:
        shell = self.partitions.shells.get(partition)
        if shell is not None:
            shell.adopt(execution_id, state)

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        try:
            await run_until(
                stop, self.requests.run(), self.consumer.watch(), self.api.run(),
                finish=self.partitions.run(stop, ready))
        finally:
            await self._notes.stop()


async def serve(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    router = Router(bus, settings, clock)
    Figures(bus, clock, router.partitions, router.counts)
    figures(router.samples)
    hindrance("room", router.room.why_not)
    hindrance("requests", router.consumer.why_not)
    await run_until(stop, router.room.watch(bus, clock), finish=router.run(stop, ready))
