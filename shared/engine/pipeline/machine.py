"""How a leased run advances, without I/O: a plain run or an iteration, from its command to its last event. The local
loop (`local_machine.py`) and the claim of rows (`frame_machine.py`) are leases of the same kind.

Theory of operation
-------------------
1. *Beginning.* A run that nobody can have held before starts at its first task. Any other is claimed: the log is read
   (it may be over, or another's), `step.started` is written under this lease, and the log is read again. Every record
   accepted before the claim is in what is read then, and none that an earlier lease writes later counts. So the run
   continues after the last finished task. A step with `max_leases: 1` is always claimed: nothing of it may run before
   the log knows. The claim also counts the leases that were lost before it, and ends a run that has lost too many. An
   iteration of a local loop is held with the loop: it is begun from what the loop's claim has found (`before`).
2. *One task.* Names, rendering, judging and folding are computed here; only the call is made outside. Before a call
   with an effect starts, everything before it is in the log (`Flush`): what had an effect is not done again because of
   it, and whoever makes this call again, with the same idempotency key, makes it from the same values. What a call
   resulted in is sent to the log at once (`Send`), and a call that only reads (`ToolSpec.reads`) does not wait until it
   is there: reads may be made again, with another answer, as long as nothing followed from the first. `task.started`
   is noted before the call, so that it gets there while a long call runs. Tasks without effects wait for the next
   record; after IN_A_ROW tasks everything noted is in the log.
   Secrets that the call was given are taken out of its outcome before anything follows from it (`Call`, `Ended`):
   rules, patches and later tasks see what the log has, so that whoever reads the log decides the same.
3. *Ours.* Whoever was away may have lost the run. So a machine asks (`Stay`) before everything that cannot be undone:
   before a task is said to start, before its tool is called, before a wait, before the last event (`Finish`).
4. *Time.* The run is over its time at `due`: at its deadline, `timeout_s` after it began (whoever had it then), and in
   one worker's hands after MAX_RUN_S. A call gets what is left of that; an outcome that comes later does not count.
5. *Leaving.* A task that waits, and a pause longer than PARK_S before the next attempt, end the lease and not the run:
   the scheduler sends it again. An iteration of a local loop cannot leave its loop, and pauses here.
6. *What does not fit.* A value too large to be stored fails its task; a record that cannot be written fails the run
   wherever it is, since then it cannot be said where that is.
7. *From outside.* `stopped` and `give_up` end a run whose machine was left where it was, as if every effect could have
   been the last.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from msgspec.structs import replace

from shared.dsl.model.plan import Step, Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.templates.names import NOW
from shared.engine.leases import lost_leases
from shared.engine.pipeline import assertions, ownership, wait_event
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.call import MAX_RUN_S, PARK_S, Times
from shared.engine.pipeline.decide import ENDED_AT, Progress
from shared.engine.pipeline.effects import (
    Call,
    Claimed,
    ComeUp,
    Ended,
    Extend,
    Finish,
    Flush,
    Fresh,
    Judged,
    LeaveTurn,
    Now,
    Park,
    Prepared,
    Read,
    Send,
    Settle,
    Sleep,
    Stay,
    Steps,
    TakeTurn,
    brought,
)
from shared.engine.pipeline.history import History
from shared.engine.pipeline.notes import Notes
from shared.engine.pipeline.preparation import empty, prepare
from shared.engine.values.stored_values import Unstorable, value_of
from shared.errors import Signal
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.events.record import Lease
from shared.events.run_index import is_iteration
from shared.events.stamp import stamp
from shared.events.waits import Waits

IN_A_ROW = 200  # tasks, before what they noted is in the log and other runs get a turn
SpecOf = Callable[[str], ToolSpec]


class _Parked(Signal):
    """The current task waits; the scheduler knows."""


class RunMachine:
    """`ended` is its last event, once it is written; `due` is when it is over its time."""

    def __init__(
        self, step: Step, command: Command, lease: Lease, spec_of: SpecOf, values: dict[str, Any], *,
        before: History | None = None, timed: bool = True,
    ) -> None:
        """`values` are the stored ones in memory. Not `timed`: whoever answers the calls says which of them
        were in time."""
        self._step, self._command, self._spec_of, self._before = step, command, spec_of, before
        self._values, self._timed = values, timed
        self.notes = Notes(command.execution_id, lease, step.max_payload_bytes)
        self.ended: ev.Event | None = None
        self.due, self._began = inf, 0.0
        self._late: list[float] = []
        self._now = 0.0  # when it began, until its first call
        self._elements: pipeline_call.Elements = {}

    def run(self) -> Steps[None]:
        """Raises Fenced if another worker has the run or it is over."""
        progress = yield from self._begin()
        try:
            while progress.state == "running":
                progress = yield from self._advance(progress)
            self.ended = yield Finish(self._ending(progress))
        except _Parked:
            return
        except Unstorable as error:
            yield from self._end(pipeline_call.cut_short(progress, error))

    def give_up(self, error: dict[str, Any]) -> Steps[None]:
        """Ends the run as failed, by a fault of whoever runs it."""
        self.notes.forget()
        if not self.notes.n:
            self.notes.note(ev.StepStarted())
        yield from self._end(Progress(self._step.tasks[0].name, state="failed", error=error))

    def stopped(self, printed: ev.Printed | None = None) -> Steps[None]:
        """Ends the run because it was told to stop; `printed` by the call that was under way."""
        yield Settle()
        self.notes.forget()
        if not self.notes.over:
            self.notes.note(*pipeline_call.stopped(iteration=is_iteration(self._command.index), printed=printed))
            yield Flush()

    def _end(self, progress: Progress) -> Steps[None]:
        (ended,) = self.notes.note(self._ending(progress))
        yield Flush()
        self.ended = ended

    def _ending(self, progress: Progress) -> ev.Event:
        return pipeline.ending(progress, iteration=is_iteration(self._command.index))

    # -- beginning ---------------------------------------------------------------------

    def _begin(self) -> Steps[Progress]:
        command, step = self._command, self._step
        if command.scope_ref is None:
            start = pipeline.begin(step, command, self._values)
        else:
            start = yield from brought(self._values, lambda: pipeline.begin(step, command, self._values))
        began = now = None
        if self._before is not None:
            start, began = self._before.progress(step, start), self._before.began
            self.notes.note(ev.StepStarted())
        elif step.max_leases == 1 or (now := (yield Fresh())) is None:
            known = yield from self._claim(start)
            start, began = known.progress(step, start), known.began
            if (error := lost_leases.failure(known.lost, step.max_leases)) is not None:
                start = Progress(step.tasks[0].name, state="failed", error=error)
        else:
            # before anything is noted: then nothing has to be taken back
            task = step.tasks[0]
            if not self._spec_of(task.kind).pure:
                yield TakeTurn(task, begun=False)
                now = None
            self.notes.note(ev.StepStarted())
        if self._timed:
            now = self._now = (yield Now()) if now is None else now
            self._began = began if began is not None else now
            self._late = pipeline_call.limits(step, command, self._began)
            self.due = min(now + MAX_RUN_S, *self._late) if self._late else now + MAX_RUN_S
        return start

    def _claim(self, start: Progress) -> Steps[History]:
        outage: bool | None = yield Extend()
        before = yield from self._known()
        if (task := pipeline_call.next_call(self._step, before.progress(self._step, start))) is not None:
            yield ComeUp((task,))
        self.notes.note(ev.StepStarted(outage=bool(outage)))
        yield Flush()
        yield Claimed()
        known = yield from self._known()
        ownership.check_claim(self.notes.lease, known.epoch)
        return known

    def _known(self) -> Steps[History]:
        known: History = yield Read()
        ownership.check(self.notes.lease, known.epoch, over=known.over, held=known.held)
        return known

    # -- one task ----------------------------------------------------------------------

    def _advance(self, progress: Progress) -> Steps[Progress]:
        if progress.waiting:
            raise _Parked
        task, values = pipeline.task_at(self._step, progress), self._values
        if task.loop is not None:
            arrived = yield from brought(
                values, lambda: pipeline_call.arrived(task, self._command, progress, values, self._elements))
            if not isinstance(arrived, Progress):
                yield LeaveTurn()
                return self._fold(progress, ev.TaskStarted(task.name, progress.attempt), arrived)
            progress = arrived
        names: dict[str, Any] = {}
        if pipeline_call.reads_names(task):
            at = progress
            names = yield from brought(values, lambda: pipeline.names(self._command, at, values))
            if NOW in self._step.task_needs.names:
                moment: float = yield Now()
                names[NOW] = stamp(moment)
        spec = self._spec_of(task.kind)
        started = ev.TaskStarted(task.name, progress.attempt)
        answer = progress.answer
        queued = 0.0
        if not spec.pure and (answer is None or answer.outcome is None):
            if progress.ran and not pipeline_call.only_reads(task, spec):
                yield Flush()
            queued = yield TakeTurn(task, begun=True)
            yield Stay()
            self.notes.note(started)
        events = yield from self._worked(task, spec, progress, names, queued)
        progress = self._fold(progress, *([started, *events] if spec.pure else events))
        last = events[-1]
        delay = last.delay if isinstance(last, ev.TaskRetried) else 0.0
        pausing = delay > 0 and self._parks(delay)  # one record says both
        if progress.state == "running" and not pausing:
            if progress.ran % IN_A_ROW == 0:
                yield Flush()
            elif not spec.pure:
                yield Send()
        if delay > 0:
            yield from self._pause(progress, delay)
        return progress

    def _worked(
        self, task: Task, spec: ToolSpec, progress: Progress, names: dict[str, Any], queued: float
    ) -> Steps[list[ev.Event]]:
        """The events that follow from the end of the call; or, when the task had to wait for it, from how
        the wait ended."""
        began = self._now if spec.pure else 0.0  # there is nothing to wait for before the first of those
        self._now = 0.0
        if not began:
            began = yield Now()
        answer, key = progress.answer, pipeline_call.key_of(self._command, progress)
        answered: tuple[float, Outcome] | Outcome | Waits | Judged
        if answer is not None and answer.outcome is not None:
            answered = yield from self._whole(answer.outcome)
        elif (left := self.due - began) <= 0:
            answered = pipeline_call.late(self._overtime())
        else:
            prepared = (yield from prepare(task, spec, names, str(task))) if task.config or task.spec else empty()
            call = self._call(task, spec, progress, names, key, left, prepared)
            if isinstance(call, Outcome):
                answered = call
            else:
                if not spec.pure:
                    yield Stay()  # loading what the call needs may have taken long
                answered = (yield call) or self._unanswered(call.limit, left)
        if isinstance(answered, Judged):
            return list(answered.events)
        if isinstance(answered, Waits):
            yield from self._wait(progress, answered, key)
            raise _Parked
        ended, outcome = answered if isinstance(answered, tuple) else (yield Ended(progress, answered, names))
        times = Times(began, ended, queued)
        if outcome.error is not None:
            outcome = pipeline_call.with_blocks(outcome, spec)
        if NOW in names:  # rules are decided on when the call has ended, and whoever decides again reads it here
            outcome = replace(outcome, meta={**outcome.meta, ENDED_AT: stamp(ended)})
        over = self._overtime() if ended >= self.due else ""
        return pipeline_call.judged(self._step, progress, outcome, names, key, times, over=over)

    def _call(
        self, task: Task, spec: ToolSpec, progress: Progress, names: dict[str, Any], key: str, left: float,
        prepared: Prepared | Outcome,
    ) -> Call | Outcome:
        """The call, with `left` of the run's time; or the outcome of one that cannot be made."""
        if not isinstance(prepared, Prepared):
            return prepared
        if task.expects and (wrong := assertions.expected(task, prepared.asked.config)) is not None:
            return wrong
        limit = pipeline_call.time_for(task, left, bounded=bool(self._late) or not self._timed)
        return Call(task, progress, names, prepared, key, limit, spec.pure)

    def _unanswered(self, limit: float, left: float) -> Outcome:
        return pipeline_call.unanswered(limit) if limit < left else pipeline_call.late(self._overtime())

    def _overtime(self) -> str:
        return pipeline_call.overtime(self._step, self._command, self.due, self._began)

    def _whole(self, outcome: Outcome) -> Steps[Outcome]:
        ref = outcome.ref
        if ref is None:
            return outcome
        value = yield from brought(self._values, lambda: value_of(ref, self._values))
        return replace(outcome, result=value, ref=None)

    def _fold(self, progress: Progress, *events: ev.Event) -> Progress:
        """Notes events for the log and folds them; a value too large becomes a failed run."""
        try:
            small = self.notes.note(*events)
        except Unstorable as error:
            events = (pipeline_call.too_large(progress, error),)
            small = self.notes.note(*events)
        return pipeline_call.folded(self._step, progress, events, small, self._values)

    # -- pauses and waits --------------------------------------------------------------

    def _parks(self, delay: float) -> bool:
        """Whether the run leaves the worker for a pause of this length."""
        return delay > PARK_S and self._before is None

    def _pause(self, progress: Progress, delay: float) -> Steps[None]:
        now: float = yield Now()
        until = min(now + delay, self.due)
        if self._parks(delay):
            yield from self._park(wait_event.pause(progress, until))
            raise _Parked
        yield Flush()
        yield Sleep(until)

    def _wait(self, progress: Progress, waits: Waits, key: str) -> Steps[None]:
        now: float = yield Now()
        event = yield from brought(
            self._values,
            lambda: wait_event.event(self._command, progress, waits, key, self._values, now, self._late))
        yield from self._park(event)

    def _park(self, event: ev.TaskWaiting) -> Steps[None]:
        yield Stay()
        self.notes.park(event)
        yield Park(event)
