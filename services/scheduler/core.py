"""The scheduler for the shell: it listens to the router and to loop iterations, runs loops, and
derives commands."""

from collections.abc import Sequence
from typing import Any

from shared.bus import topology
from shared.engine import schedule, scheduling
from shared.engine.schedule import Schedule
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Record, Writer
from shared.runtime.core import Entry
from shared.runtime.plans import Plans


class SchedulerCore:
    writer: Writer = "scheduler"
    listens: tuple[Writer, ...] = ("router", "iteration")
    bucket = topology.LOOPS
    kind = Schedule

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def empty(self, execution_id: str) -> Schedule:
        return Schedule(execution_id)

    def first(self, record: Record) -> bool:
        return record.writer == "router" and record.n == 1

    def fold(self, state: Schedule, records: Sequence[Entry]) -> Schedule:
        return schedule.evolve(state, list(records))

    def stale(self, state: Schedule, records: Sequence[Entry]) -> bool:
        """A report about a loop or an iteration this state never started."""
        return any(
            record.lease is not None
            and record.lease.run_id in state.loops
            and record.lease.index >= state.loops[record.lease.run_id].next
            for _, record in records
        )

    def decide(self, state: Schedule, now: float, values: dict[str, Any]) -> list[ev.Event]:
        return scheduling.decide(self._plans, state, now, values)

    def commands(
        self, state: Schedule, records: Sequence[Entry], values: dict[str, Any], horizon: int
    ) -> list[Command]:
        found: list[Command] = []
        for seq, record in records:
            if record.lease is not None:
                continue
            for event in record.events:
                found += self._for(state, event, seq > horizon, values)
        return found

    def _for(self, state: Schedule, event: ev.Event, fresh: bool, values: dict[str, Any]) -> list[Command]:
        match event:
            case ev.StepScheduled(run_id=run_id) if run_id in state.runs:
                return [scheduling.run_command(state.execution_id, state.runs[run_id], fresh=fresh)]
            case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in state.loops:
                loop = state.loops[run_id]
                step = self._plans(loop.event.digest).steps[loop.event.step]
                window = range(first, first + count)
                return scheduling.loop_commands(step, state.execution_id, loop, window, values, fresh=fresh)
        return []

    def recover(self, state: Schedule, values: dict[str, Any]) -> list[Command]:
        return scheduling.outstanding(self._plans, state, values)

    def over(self, state: Schedule) -> bool:
        return state.finished

    def keep(self, state: Schedule) -> bool:
        return not state.finished and bool(state.runs or state.loops)
