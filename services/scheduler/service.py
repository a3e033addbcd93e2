"""The scheduler: loops and dispatch, schedules and triggers. It turns the log into commands for worker
pools, and times and messages into executions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

from services.scheduler.automation import Automation
from services.scheduler.consumers import Consumers
from services.scheduler.demand import Demand
from services.scheduler.ends import Ends
from services.scheduler.limits import Limits
from services.scheduler.notify import Notifier
from services.scheduler.queue import CommandQueue
from services.scheduler.takeover import Known
from shared.bus.ports import Bus, Clock
from shared.dsl.model.plan import PlanMissing
from shared.engine.scheduling import limits as scheduling_limits
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.state import Schedule
from shared.engine.values.stored_values import Missing
from shared.events import subjects
from shared.events.command import Command
from shared.runtime.control.actor import Actor
from shared.runtime.control.burials import ORIGIN
from shared.runtime.control.figures import Figures
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.load_pacing import Loads
from shared.runtime.control.partitions import Partitions
from shared.runtime.control.shell import Shell
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.service import metric_names as names
from shared.runtime.service.background import run_until
from shared.runtime.service.health import figures
from shared.runtime.service.metrics import Sample
from shared.runtime.service.provision import provision
from shared.runtime.service.settings import Settings
from shared.runtime.stores.plans import Plans


class Scheduler:
    def __init__(
        self, bus: Bus, settings: Settings, clock: Clock, remake_queue: Callable[[], Awaitable[object]]
    ) -> None:
        plans = Plans(bus)
        self._core = SchedulerCore(plans)
        self.limits = Limits(
            bus, clock, settings.instance, settings.partitions, self._owns, lambda: self.partitions.members, self._knows
        )
        self.queue = CommandQueue(bus, clock, remake_queue, self, self.limits)
        self.ends = Ends(bus, clock, settings.partitions, self._seen, Notifier(bus, plans))
        around = Surroundings(
            bus=bus, clock=clock, partitions=settings.partitions, core=self._core, plans=plans, send=self.queue.send,
            loads=Loads(), quota=Quota(clock.now, ORIGIN), witness=self.ends.hear,
        )
        self.counts = around.counts
        self.partitions: Partitions[Schedule] = Partitions(
            bus, clock, "scheduler", settings.instance, settings.partitions,
            lambda partition: Shell(around, partition),
        )
        self.automation = Automation(
            bus, clock, settings.instance, settings.partitions, lambda: frozenset(self.partitions.shells)
        )
        self._count = settings.partitions

    def samples(self) -> Iterator[Sample]:
        """What the scheduler tells of itself beside what deciders do."""
        yield from self.queue.samples()
        for status, count in self.ends.told.items():
            yield Sample(names.ENDED, count, (status,))

    def share(self) -> float:
        return len(self.partitions.shells) / self._count

    def _shell(self, execution_id: str) -> Shell[Schedule] | None:
        return self.partitions.shells.get(subjects.partition_of(execution_id, self._count))

    def _seen(self) -> dict[int, int]:
        return {partition: shell.seen for partition, shell in self.partitions.shells.items()}

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
        return scheduling_limits.is_live(actor.state, place)

    def due(self) -> Iterable[Command]:
        """What the owned partitions say is outstanding."""
        for shell in list(self.partitions.shells.values()):
            for actor in list(shell.actors.values()):
                yield from self._commands(shell, actor) or ()

    def live(self) -> Iterable[Schedule]:
        for shell in self.partitions.shells.values():
            for actor in shell.actors.values():
                if actor.state is not None:
                    yield actor.state

    def known(self, execution_id: str) -> Known:
        """What is outstanding of one execution. Live ones that this scheduler owns are all in memory or being loaded,
        so an unknown one has nothing outstanding. None for one it does not own: the owner may be dead, and this the
        next."""
        shell = self._shell(execution_id)
        if shell is None:
            return None
        actor = shell.actors.get(execution_id)
        return () if actor is None else self._commands(shell, actor)

    def _commands(self, shell: Shell[Schedule], actor: Actor[Schedule]) -> Known:
        """A state that lacks something is loaded again, which publishes its commands too."""
        if actor.state is None:
            return None
        try:
            return self._core.commands(actor.state, actor.values)
        except (Missing, PlanMissing):
            shell.reload(actor)
        except Exception as error:
            if not actor.busy:
                shell.stumbled(actor, error)
        return None

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        sender = asyncio.create_task(self.queue.run())
        try:
            await run_until(
                stop, *self.queue.loops(), self.limits.run(), self.limits.hear(), self.automation.run(),
                self.ends.run(),
                finish=self.partitions.run(stop, ready),
            )
        finally:
            sender.cancel()
            await asyncio.wait({sender})
            await self.queue.close()


async def serve(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    consumers = Consumers(bus, clock, settings.pools, provision(settings))
    scheduler = Scheduler(bus, settings, clock, consumers.make)
    Figures(bus, clock, scheduler.partitions, scheduler.counts)
    figures(scheduler.samples)
    demand = Demand(bus, clock, settings.instance, scheduler.queue.held)
    await run_until(
        stop, consumers.follow(), consumers.watch(), demand.run(), finish=scheduler.run(stop, ready)
    )
    await demand.close()
