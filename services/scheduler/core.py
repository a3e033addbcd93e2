"""The scheduler for the shell: it listens to the router, to loop iterations, to tasks that wait and to what
comes from outside; it runs loops and waits, and derives commands and requests for children."""

from collections.abc import Sequence
from typing import Any

from shared.bus import topology
from shared.engine import schedule, scheduling, waiting
from shared.engine.schedule import Schedule
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Lease, Record, Writer
from shared.events.stop import Stop
from shared.runtime.core import Entry, Outgoing
from shared.runtime.plans import Plans


class SchedulerCore:
    writer: Writer = "scheduler"
    listens: tuple[Writer, ...] = ("router", "iteration", "waiting", "control")
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

    def due(self, state: Schedule) -> float | None:
        return scheduling.due(state)

    def outgoing(
        self, state: Schedule, records: Sequence[Entry], values: dict[str, Any], horizon: int
    ) -> list[Outgoing]:
        found: list[Outgoing] = []
        for seq, record in records:
            if record.writer == "waiting" and record.lease is not None:
                found += self._for_wait(state, record.lease, values)
            elif record.lease is None:
                for event in record.events:
                    found += self._for(state, event, seq, seq > horizon, values)
        if state.orphans and any(record.writer in ("router", "scheduler") for _, record in records):
            found += waiting.cancels(state)
        return found

    def _for_wait(self, state: Schedule, lease: Lease, values: dict[str, Any]) -> Sequence[Outgoing]:
        """A child is asked for; a wait that was over before this worker came to it needs a command again."""
        wait = state.waits.get(waiting.place(lease.run_id, lease.index))
        if wait is None or wait.epoch != lease.epoch:
            return []
        if wait.over:
            return scheduling.resumed_command(self._plans, state, lease.run_id, lease.index, values, state.seq)
        request = waiting.asked(state, wait)
        return [request] if request is not None else []

    def _for(
        self, state: Schedule, event: ev.Event, seq: int, fresh: bool, values: dict[str, Any]
    ) -> Sequence[Outgoing]:
        match event:
            case ev.StepCancelled(run_id=run_id, pool=pool) | ev.StepFailed(run_id=run_id, pool=pool) if pool:
                return [Stop(pool, state.execution_id, run_id)]
            case ev.TaskResumed(run_id=run_id, index=index):
                return scheduling.resumed_command(self._plans, state, run_id, index, values, seq)
            case ev.StepScheduled(run_id=run_id) if run_id in state.runs:
                return [scheduling.run_command(state.execution_id, state.runs[run_id], fresh=fresh)]
            case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in state.loops:
                loop = state.loops[run_id]
                step = self._plans(loop.event.digest).steps[loop.event.step]
                window = range(first, first + count)
                return scheduling.loop_commands(step, state.execution_id, loop, window, values, fresh=fresh)
        return []

    def recover(self, state: Schedule, values: dict[str, Any]) -> list[Outgoing]:
        return [*self.commands(state, values), *waiting.children(state), *waiting.cancels(state)]

    def commands(self, state: Schedule, values: dict[str, Any]) -> list[Command]:
        """What the queue should hold, or a worker."""
        return scheduling.outstanding(self._plans, state, values)

    def over(self, state: Schedule) -> bool:
        return state.finished

    def keep(self, state: Schedule) -> bool:
        return not state.finished and bool(state.runs or state.loops or state.stopping)
