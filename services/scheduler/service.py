"""The scheduler: loops and dispatch, schedules and triggers. It turns the log into commands for worker
pools, and times and messages into executions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from services.scheduler.automation import Automation
from services.scheduler.core import SchedulerCore
from services.scheduler.queue import CommandQueue
from shared.bus import streams, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus, Clock
from shared.engine.large import Missing
from shared.engine.schedule import Schedule
from shared.events.command import Command
from shared.runtime.clock import SystemClock
from shared.runtime.partitions import Partitions
from shared.runtime.plans import PlanMissing, Plans
from shared.runtime.settings import Settings
from shared.runtime.shell import Shell
from shared.runtime.tasks import run_until


class Scheduler:
    def __init__(
        self, bus: Bus, settings: Settings, clock: Clock, remake_queue: Callable[[], Awaitable[object]]
    ) -> None:
        plans = Plans(bus)
        self._core = SchedulerCore(plans)
        self.queue = CommandQueue(bus, clock, remake_queue, self._due)
        self.partitions: Partitions[Schedule] = Partitions(
            bus, clock, "scheduler", settings.instance, settings.partitions,
            lambda partition: Shell(bus, clock, partition, self._core, plans, self.queue.send),
        )
        self.automation = Automation(
            bus, clock, settings.instance, settings.partitions, lambda: frozenset(self.partitions.shells)
        )

    def _due(self) -> Iterable[Command]:
        """What the owned partitions say is outstanding; a state that lacks something is loaded anew,
        which publishes its commands too."""
        for shell in list(self.partitions.shells.values()):
            for actor in list(shell.actors.values()):
                if actor.state is None:
                    continue
                try:
                    yield from self._core.commands(actor.state, actor.values)
                except (Missing, PlanMissing):
                    shell.reload(actor)

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        sender = asyncio.create_task(self.queue.run())
        try:
            await run_until(stop, self.queue.watch(), self.automation.run(), finish=self.partitions.run(stop, ready))
        finally:
            sender.cancel()
            await asyncio.wait({sender})
            await self.queue.close()


async def serve(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    assert isinstance(bus, JetStreamBus)
    wanted = streams.queue_only(topology.wanted(settings.pools, settings.partitions))
    await Scheduler(bus, settings, SystemClock(), lambda: streams.ensure(bus, wanted)).run(stop, ready)
