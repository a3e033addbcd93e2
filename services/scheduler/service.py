"""The scheduler: loops and dispatch, schedules and triggers. It turns the log into commands for worker
pools, and times and messages into executions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from services.scheduler.automation import Automation
from services.scheduler.consumers import Consumers
from services.scheduler.core import SchedulerCore
from services.scheduler.limits import Limits
from services.scheduler.queue import CommandQueue
from shared.bus.ports import Bus, Clock
from shared.engine import limiting
from shared.engine.large import Missing
from shared.engine.schedule import Schedule
from shared.events import subjects
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
        self.limits = Limits(
            bus, clock, settings.instance, settings.partitions, self._owns, lambda: self.partitions.members, self._knows
        )
        self.queue = CommandQueue(bus, clock, remake_queue, self._due, self._share, self.limits)
        self.partitions: Partitions[Schedule] = Partitions(
            bus, clock, "scheduler", settings.instance, settings.partitions,
            lambda partition: Shell(bus, clock, partition, self._core, plans, self.queue.send),
        )
        self.automation = Automation(
            bus, clock, settings.instance, settings.partitions, lambda: frozenset(self.partitions.shells)
        )

        self._count = settings.partitions

    def _share(self) -> float:
        return len(self.partitions.shells) / self._count

    def _shell(self, execution_id: str) -> Shell[Schedule] | None:
        return self.partitions.shells.get(subjects.partition_of(execution_id, self._count))

    def _owns(self, execution_id: str) -> bool:
        return self._shell(execution_id) is not None

    def _knows(self, execution_id: str, place: str) -> bool | None:
        """Whether a run, or the execution, still wants or holds its place."""
        shell = self._shell(execution_id)
        if shell is None:
            return None
        actor = shell.actors.get(execution_id)
        if actor is None or actor.state is None:
            shell.load(execution_id)
            return None
        return limiting.is_live(actor.state, place)

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
            await run_until(
                stop, self.queue.watch(), self.queue.listen(), self.limits.run(), self.limits.hear(),
                self.automation.run(), finish=self.partitions.run(stop, ready),
            )
        finally:
            sender.cancel()
            await asyncio.wait({sender})
            await self.queue.close()


async def serve(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    clock = SystemClock()
    consumers = Consumers(bus, clock, settings.pools)
    scheduler = Scheduler(bus, settings, clock, consumers.make)
    await run_until(stop, consumers.follow(), finish=scheduler.run(stop, ready))
