"""The router: tokens, arcs, completion; and the entry of execution requests."""

import asyncio
from collections.abc import Callable

from services.router.core import RouterCore
from services.router.notes import Notes
from services.router.requests import Requests
from shared.bus.ports import Bus, Clock
from shared.engine.execution import Execution
from shared.runtime.clock import SystemClock
from shared.runtime.partitions import Partitions
from shared.runtime.plans import Plans
from shared.runtime.settings import Settings
from shared.runtime.shell import Shell
from shared.runtime.tasks import run_until


class Router:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock) -> None:
        self._plans = Plans(bus)
        self._notes = Notes(bus, clock, settings.partitions)
        core = RouterCore(self._plans)
        self.partitions: Partitions[Execution] = Partitions(
            bus, clock, "router", settings.instance, settings.partitions,
            lambda partition: Shell(bus, clock, partition, core, self._plans, self._notes.send),
        )
        self.requests = Requests(bus, clock, self._plans, settings.partitions, self._adopt, self._notes)

    def _adopt(self, partition: int, execution_id: str, state: Execution) -> None:
        shell = self.partitions.shells.get(partition)
        if shell is not None:
            shell.adopt(execution_id, state)

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        try:
            await run_until(stop, self.requests.run(), finish=self.partitions.run(stop, ready))
        finally:
            await self._notes.stop()


async def serve(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    await Router(bus, settings, SystemClock()).run(stop, ready)
