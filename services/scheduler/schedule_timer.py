"""Fires schedules: looks at those of its partitions when they are due, decides, keeps the decision in KV
by compare-and-set, and then asks for the executions. A second timekeeper at the same time is harmless:
one of the two decisions is kept, and the ids of the executions are derived from the times."""

import math

import msgspec
import structlog
from msgspec.structs import replace

from services.scheduler.template_turns import Turns
from shared.bus import dead_letters, topology
from shared.bus.ports import Bus, Clock
from shared.dsl.documents.schedules import Schedule
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation.schedules import Fire, State
from shared.errors import Conflict, Corrupt, NoetlError, Refused, TemplateError
from shared.events import subjects
from shared.events.request import decode_derived
from shared.runtime.stores import schedules as store_schedules
from shared.runtime.stores.execution_status import standings
from shared.runtime.stores.schedules import Entry

log = structlog.get_logger()
LOOK_S = 1.0  # while a missed time waits for the execution before it
RETRY_S = 1.0


class Watch:
    """A schedule and its state, as far as this timekeeper knows."""

    def __init__(self, schedule: Schedule, entry: Entry, partition: int) -> None:
        self.schedule, self.entry, self.partition = schedule, entry, partition
        self.state: State | None = None
        self.revision = 0
        self.next_at = 0.0

    def forget(self) -> None:
        """Someone else may look after it: what is known is read again."""
        self.state, self.next_at = None, 0.0


class Timekeeper:
    def __init__(self, bus: Bus, clock: Clock, partitions: int, turns: Turns) -> None:
        self._bus, self._clock, self._partitions, self._turns = bus, clock, partitions, turns

    async def serve(self, watch: Watch) -> None:
        """Does what is due now, and notes when to look again."""
        try:
            await self._serve(watch)
        except Conflict:
            watch.forget()  # decided by another one: read and look again
        except NoetlError as error:
            log.warning("schedule.waits", schedule=watch.schedule.name, error=str(error))
            watch.forget()
            watch.next_at = self._clock.now() + RETRY_S

    async def _serve(self, watch: Watch) -> None:
        state = watch.state
        if state is None:
            found, watch.revision = await store_schedules.read_state(self._bus, "Schedule", watch.schedule.name, State)
            state = watch.state = found
        state = await self._told(watch, state)  # what was decided before a stop
        if watch.entry.paused:
            watch.next_at = math.inf
            return
        over = await self._over(state) if watch.schedule.overlap != "allow" else frozenset()
        async with self._turns:
            decided = automation_schedules.decide(watch.schedule, state, watch.entry.since, self._clock.now(), over)
        if decided != state:
            await self._keep(watch, decided)
            await self._report_new(watch.schedule, state, decided)
            decided = await self._told(watch, decided)
        watch.next_at = self._when(watch, decided)

    def _when(self, watch: Watch, state: State) -> float:
        if state.owed:
            return self._clock.now() + (LOOK_S if watch.schedule.overlap != "allow" else 0.0)
        due = automation_schedules.next_due(watch.schedule, state, watch.entry.since)
        return math.inf if due is None else float(due)

    async def _keep(self, watch: Watch, state: State) -> None:
        name = watch.schedule.name
        watch.revision = await store_schedules.write_state(self._bus, "Schedule", name, state, watch.revision)
        watch.state = state

    async def _told(self, watch: Watch, state: State) -> State:
        """Requests that are decided and not with the broker yet; asked for twice, one is started."""
        fires, cancels = automation_schedules.unsent(state), state.cancels
        if not fires and not cancels:
            return state
        for execution_id in cancels:
            stop = {"execution_id": execution_id, "reason": "the next time of its schedule has come",
                    "by": f"schedule {watch.schedule.name}"}
            await self._bus.append(subjects.CANCEL, msgspec.json.encode(stop))
        for fire in fires:
            await self._ask(watch.schedule, fire)
        state = automation_schedules.told(state, frozenset(fire.execution_id for fire in fires))
        await self._keep(watch, state)
        return state

    async def _ask(self, schedule: Schedule, fire: Fire) -> None:
        try:
            async with self._turns:
                request = msgspec.json.encode(automation_schedules.request(schedule, fire.at))
                decode_derived(request)  # the router would reject it
            await self._bus.append(subjects.DERIVED, request)
        except (TemplateError, Corrupt, Refused, RecursionError, TypeError, ValueError) as error:
            await self._report(schedule, replace(fire, verdict="failed", why=str(error)))

    async def _over(self, state: State) -> frozenset[str]:
        """A request that no router took while requests are kept is gone."""
        found = await standings(self._bus, automation_schedules.running(state), self._partitions)
        oldest = self._clock.now() - topology.REQUESTS_KEPT_S
        asked = {fire.execution_id: fire.at for fire in state.recent}
        return frozenset(
            each for each, is_ in found.items() if is_ == "over" or (is_ == "unknown" and asked[each] < oldest)
        )

    async def _report_new(self, schedule: Schedule, before: State, after: State) -> None:
        if after.left_out != before.left_out:
            log.warning("schedule.left_out", schedule=schedule.name, before=after.left_out, most=schedule.made_up)
        known = {fire.execution_id for fire in before.recent}
        for fire in after.recent:
            if fire.execution_id not in known:
                await self._report(schedule, fire)

    async def _report(self, schedule: Schedule, fire: Fire) -> None:
        log.info("schedule.fired", schedule=schedule.name, at=fire.at, execution_id=fire.execution_id,
                 verdict=fire.verdict, why=fire.why)
        if fire.verdict == "failed":
            place = f"schedule {schedule.name} at {fire.at}"
            await dead_letters.bury(self._bus, "schedules", place, fire.why, name=schedule.name, at=fire.at,
                                    owner=schedule.name)
