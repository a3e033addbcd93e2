"""The scheduler as a core: what it hears, decides and sends for one execution. Begin reading the room here.

Theory of operation
-------------------
The router decides which step runs next. The scheduler decides when each part of that step goes to a worker, and makes
sure that a worker gets it. It calls no tool and selects no arc. Of plain runs it does not even read what workers
report: the router does, and the scheduler hears from the router that a run is over.

1. *State* (`state.py`). A `Schedule` holds what is unfinished: plain runs, loop-runs, waits, granted places. It is
   folded from the log and from nothing else, so it may be thrown away at any time and folded again.
2. *Commands are derived, not decided.* All that a worker needs for a plain run is in `step.scheduled`, so the scheduler
   writes no record for it: the command follows. So does every other message (`messages.py`). `outgoing` gives those
   that follow from new records, `recover` all that must exist now, whoever may have sent them before. Nothing is sent
   that the log does not already say, so a lost queue costs time and nothing else.
3. *Decisions* (`decide.py`) are only what no reader could derive alone: which elements a loop has, which iterations
   start, when a wait is over, that a run is over its time. They depend on state and time only and yield nothing when
   asked again after their own events. So anyone can check them (`shared/answers/verify`).
4. *Loops* (`loops.py`; nested ones in `nesting.py`, rows of a cursor in `cursor_rows.py`, what a rerun keeps in
   `carried_loop.py`). At most `max_in_flight` iterations are started and not ended, and `loop.done` comes once, when
   all that were started have ended.
5. *Waits* (`waits.py`). A task that waits holds no worker. `task.resumed` ends the wait once, and only then does the
   run go to its pool again.
6. *Limits* (`limits.py`, `limit_ledger.py`). A run that needs a place of a key is sent when its own log says that it
   has one, and not before.
7. *Time.* `due` says when the next decision follows from time alone; whoever drives the core asks again then. Nothing
   here reads a clock.
8. *Fresh.* A worker that takes a fresh command need not read the history of its run: it starts at the first task. That
   is right only if nobody can have held the run before. So a command is fresh only if it follows directly from a record
   beyond the `horizon`. Whatever may be a repetition is not: after a grant, a wait or a pause, and in `recover`.

Sending too much is harmless: the queue accepts one command of a run at a time, a child has the id that follows from its
wait, and a worker that takes a command of something that is over finds that in the log. Sending too little would leave
a run waiting for ever; `recover` and the service's sweeps (`services/scheduler/queue_loss.py`) are there for that.
"""

from collections.abc import Callable, Collection, Sequence

from shared.dsl.model.plan import Plan
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import limits, loops
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling import waits as waiting
from shared.engine.scheduling.limits import Want
from shared.engine.scheduling.messages import Free, Message
from shared.engine.scheduling.state import Loop, Schedule
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.command import Command
from shared.events.readers import INPUTS, Decider
from shared.events.record import Entry, Lease, Record, Writer
from shared.events.run_index import is_iteration
from shared.events.stamp import seconds
from shared.events.stop import Stop

Plans = Callable[[str], Plan]
Wanted = Callable[[str, int], bool]


class SchedulerCore:
    writer: Decider = "scheduler"
    listens: tuple[Writer, ...] = INPUTS["scheduler"]
    kind = Schedule

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def empty(self, execution_id: str) -> Schedule:
        return Schedule(execution_id)

    def first(self, record: Record) -> bool:
        return record.writer == "router" and record.n == 1

    def fold(self, state: Schedule, records: Sequence[Entry], fitting: set[int] | None = None) -> Schedule:
        return schedule.evolve(state, list(records), fitting)

    def stale(self, state: Schedule, records: Sequence[Entry]) -> bool:
        """A report about a loop or an iteration this state never started."""
        return bool(state.loops) and any(
            record.lease is not None
            and record.lease.run_id in state.loops
            and scheduling.is_unknown(state.loops[record.lease.run_id], record.lease.index)
            for _, record in records
        )

    def unfit(self, state: Schedule, entry: Entry, fitting: Collection[int] = ()) -> str:
        """A wait that the plan does not have fails its run, and has a letter too."""
        seq, record = entry
        found = "" if seq in fitting else schedule.unfit(state, record, seq)
        if not found and record.lease is not None and isinstance(record.events[-1], ev.TaskWaiting):
            return waiting.unplanned(self._plans, state, record.lease.run_id, record.events[-1])
        return found

    def decide(self, state: Schedule, now: float, values: Values) -> list[ev.Event]:
        return scheduling.decide(self._plans, state, now, values)

    def due(self, state: Schedule) -> float | None:
        return scheduling.due(state)

    def outgoing(self, state: Schedule, records: Sequence[Entry], values: Values, horizon: int) -> list[Message]:
        found: list[Message] = []
        for seq, record in records:
            lease = record.lease
            if lease is None:
                for event in record.events:
                    if isinstance(event, ev.NextSelected):
                        found.append(Free(state.execution_id, event.run_id))
                    elif type(event) in _TOLD:
                        found += self._for(state, event, seq, record.ts if seq > horizon else "", values)
                continue
            match record.events[-1]:
                case ev.IterationDone() | ev.IterationFailed() | ev.FrameClaimed() | ev.FrameFailed():
                    found.append(Free(state.execution_id, lease.run_id, lease.index))
                case ev.TaskWaiting():
                    found.append(Free(state.execution_id, lease.run_id, lease.index, parked=True))
                    found += self._for_wait(state, lease, values)
        if state.orphans and any(record.writer in ("router", "scheduler") for _, record in records):
            found += waiting.cancels(state)
        return found

    def _for_wait(self, state: Schedule, lease: Lease, values: Values) -> Sequence[Message]:
        """A child is requested. If the wait was over before this worker came to it, the run needs another command."""
        wait = state.waits.get(waiting.run_key(lease.run_id, lease.index))
        if wait is None or wait.epoch != lease.epoch:
            return []
        if wait.over:
            return scheduling.resumed_command(self._plans, state, lease.run_id, lease.index, values, state.seq)
        request = waiting.asked(self._plans, state, wait)
        return [request] if request is not None else []

    def _for(self, state: Schedule, event: ev.Event, seq: int, time: str, values: Values) -> Sequence[Message]:
        """`time` is that of its record, if commands that follow from it are fresh."""
        match event:  # the frequent ones first: a class pattern that does not match costs as much as one that does
            case ev.StepScheduled(run_id=run_id) if run_id in state.runs and not limits.is_closed(state):
                if event.limited:
                    return list(limits.run_want(self._plans, state, run_id, values))
                return [scheduling.run_command(state, state.runs[run_id], fresh=bool(time), at=_at(time))]
            case ev.PlaybookProcessed():
                return [Free(state.execution_id)]
            case ev.PlaybookStarted(limit=limit):
                return list(limits.gate(state)) if limit is not None else []
            case ev.StepCancelled(run_id=run_id) | ev.StepFailed(run_id=run_id):
                return [*stops(state.execution_id, event), Free(state.execution_id, run_id)]
            case ev.LoopDone(run_id=run_id):
                return [Free(state.execution_id, run_id)]
            case ev.TaskResumed(run_id=run_id, index=index):
                return scheduling.resumed_command(self._plans, state, run_id, index, values, seq)
            case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in state.loops:
                loop, window = state.loops[run_id], range(first, first + count)
                if loop.event.limited:
                    return list(
                        limits.loop_wants(self._plans, state, run_id, window, values, loops.iter_of))
                step = self._plans(loop.event.digest).steps[loop.event.step]
                if loop.is_local:
                    return [self._local(state, loop, values, fresh=bool(time), at=_at(time))]
                return scheduling.loop_commands(
                    step, state, loop, window, values, fresh=bool(time), at=_at(time))
            case ev.FrameStarted(run_id=run_id, frame=frame) if run_id in state.loops:
                loop = state.loops[run_id]
                if scheduling.is_asked(loop, frame):
                    return [scheduling.frame_command(state, loop, fresh=bool(time), at=_at(time))]
            case ev.PlaybookPaused():
                local = scheduling.local_loops(state)
                return [Stop(each.event.pool, state.execution_id, each.event.run_id, True, seq) for each in local]
            case ev.PlaybookResumed() if not state.paused:
                local = scheduling.local_loops(state)
                return [self._local(state, each, values, fresh=False, since=seq) for each in local]
            case ev.LimitGranted(run_id=run_id, index=index):
                return self._for_place(state, run_id, index, values)
        return []

    def _local(
        self, state: Schedule, loop: Loop, values: Values, *, fresh: bool, since: int = 0, at: float = 0.0
    ) -> Command:
        step = self._plans(loop.event.digest).steps[loop.event.step]
        return scheduling.local_command(step, state, loop, values, fresh=fresh, since=since, at=at)

    def _for_place(self, state: Schedule, run_id: str, index: int, values: Values) -> Sequence[Message]:
        """What may be sent now. Not fresh: the same grant may be in the log twice."""
        if waiting.run_key(run_id, index) not in state.granted:
            return []
        if not run_id:
            return [*self.wants(state, values), *self.commands(state, values)]
        if not is_iteration(index):
            held: Sequence[Message] = list(limits.run_want(self._plans, state, run_id, values))
            due = not waiting.is_waiting(state, run_id)
        else:
            held = list(limits.loop_wants(self._plans, state, run_id, [index], values, loops.iter_of))
            due = scheduling.is_due(state, state.loops[run_id], index)
        return [*held, *(scheduling.resumed_command(self._plans, state, run_id, index, values, 0) if due else [])]

    def recover(self, state: Schedule, values: Values) -> list[Message]:
        """`Free` comes first: ends may have been missed, so whatever is believed to be under way is forgotten."""
        wants, commands = self.wants(state, values), self.commands(state, values)
        children = waiting.children(self._plans, state)
        return [Free(state.execution_id), *wants, *commands, *children, *waiting.cancels(state)]

    def commands(self, state: Schedule, values: Values, wanted: Wanted = lambda *_: True) -> list[Command]:
        """What should be in the queue or with a worker. `wanted` selects runs and iterations."""
        return scheduling.outstanding(self._plans, state, values, wanted)

    def wants(self, state: Schedule, values: Values) -> list[Want]:
        """Every place that the execution waits for or holds."""
        return list(limits.wants(self._plans, state, values, loops.iter_of))

    def over(self, state: Schedule) -> bool:
        return state.finished

    def keep(self, state: Schedule) -> bool:
        return not state.finished and bool(state.runs or state.loops or state.stopping)


def stops(execution_id: str, event: ev.Event) -> list[Stop]:
    """The workers to stop because of an event of the router or the scheduler: those that may hold the run it ends."""
    match event:
        case ev.StepCancelled(run_id=run_id, pool=pool) | ev.StepFailed(run_id=run_id, pool=pool) if pool:
            return [Stop(pool, execution_id, run_id)]
    return []


_TOLD = frozenset({  # events that messages follow from, beside `next.selected`
    ev.StepScheduled, ev.StepCancelled, ev.StepFailed, ev.LoopDone, ev.PlaybookProcessed, ev.TaskResumed,
    ev.PlaybookStarted, ev.IterationStarted, ev.FrameStarted, ev.PlaybookPaused, ev.PlaybookResumed,
    ev.LimitGranted,
})


def _at(time: str) -> float:
    return seconds(time) if time else 0.0
