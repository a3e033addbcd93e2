"""How the claim of a frame of rows advances under one lease, for a loop with a cursor.

Theory of operation
-------------------
1. The query runs in a transaction; its rows are written into the log, and only then is it committed. A worker that dies
   before the record claims nothing; one that dies between the record and the commit leaves the rows unclaimed in the
   table, and the loop has them: a row may come again, and none is lost.
2. A record that came too late, after another worker has claimed the frame, is not committed: after it is written, the
   log is read to see whether it counts.
3. A claim that failed for the moment is tried again after PAUSES_S; then it fails, and the loop with it.
4. Every frame is claimed by a first record, so the leases that were lost are counted as those of a run.
"""

from math import inf
from typing import Any

from shared.dsl.model.plan import Step, Task
from shared.engine.leases import lost_leases
from shared.engine.leases.lost_leases import Lost
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import frame_claim, ownership
from shared.engine.pipeline.call import MAX_RUN_S, late
from shared.engine.pipeline.effects import (
    Claimed,
    ClaimRows,
    Extend,
    Flush,
    Fresh,
    Judged,
    Now,
    Read,
    Settle,
    Sleep,
    Steps,
    brought,
)
from shared.engine.pipeline.history import History
from shared.engine.pipeline.machine import SpecOf
from shared.engine.pipeline.notes import Notes
from shared.engine.pipeline.ownership import Fenced
from shared.engine.pipeline.preparation import prepare
from shared.engine.values import time_limits
from shared.errors import NoetlError, Unavailable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.failure import is_retryable
from shared.events.outcome import Outcome, ok
from shared.events.record import Lease
from shared.events.stamp import seconds

PAUSES_S = (0.5, 2.0)  # before a claim that failed for the moment is tried again
LAG_S = (0.05, 0.2, 1.0)  # a replica may lag behind with our own record


class FrameMachine:
    """`due` is when it is over its time."""

    def __init__(
        self, step: Step, command: Command, lease: Lease, spec_of: SpecOf, values: dict[str, Any], *, timed: bool = True
    ) -> None:
        """Not `timed`: whoever answers the claim says whether it was in time."""
        self._step, self._command, self._spec_of, self._values = step, command, spec_of, values
        self.due = seconds(command.deadline) if timed and command.deadline else inf
        self.notes = Notes(command.execution_id, lease, step.max_payload_bytes)
        self._holds = False
        self._wrong: Exception | Outcome | None = None

    def run(self) -> Steps[Outcome | None]:
        """Raises Fenced when the frame is someone else's or claimed. An Outcome is that of a commit which failed after
        the rows were written."""
        if (error := lost_leases.failure((yield from self._begin()), self._step.max_leases)) is not None:
            yield from self._fail(error)
            return None
        outcome = yield from self._claim(1)
        for attempt, pause in enumerate(PAUSES_S, 2):
            if self.notes.over or not is_retryable(outcome.error):
                break
            now: float = yield Now()
            yield Sleep(now + pause)
            outcome = yield from self._claim(attempt)
        if outcome.error is None:
            return None
        if self.notes.over:
            return outcome
        yield from self._fail(outcome.error)
        return None

    def give_up(self, error: dict[str, Any]) -> Steps[None]:
        """Ends the claim by a fault of whoever makes it."""
        yield from self._fail(error)

    def stopped(self) -> Steps[None]:
        """Ends the claim because the loop was told to stop."""
        yield Settle()
        yield from self._fail(pipeline_call.STOPPED)

    def _fail(self, error: dict[str, Any]) -> Steps[None]:
        self.notes.forget()
        if not self.notes.over:
            self.notes.note(*(() if self._holds else (ev.StepStarted(),)), ev.FrameFailed(error))
            yield Flush()

    # -- holding it ----------------------------------------------------------------------

    def _begin(self) -> Steps[tuple[Lost, ...]]:
        """The leases that were lost before this one."""
        fresh: bool = (yield Fresh()) is not None
        outage: bool | None = False
        if not fresh:
            outage = yield Extend()
            yield from self._known()
        self.notes.note(ev.StepStarted(outage=bool(outage)))
        yield Flush()
        self._holds = True
        if fresh:
            return ()
        yield Claimed()
        known = yield from self._known()
        return known.lost

    def _known(self) -> Steps[History]:
        known: History = yield Read()
        ownership.check(self.notes.lease, known.epoch, over=known.over, held=known.held)
        return known

    # -- the query -----------------------------------------------------------------------

    def _claim(self, attempt: int) -> Steps[Outcome]:
        command, task = self._command, self._task()
        now: float = yield Now()
        left = min(MAX_RUN_S, self.due - now)
        if left <= 0:
            return late(time_limits.over(command.due_by, self._step))
        names = yield from brought(self._values, lambda: frame_claim.names(command, self._values))
        prepared = yield from prepare(task, self._spec_of(task.kind), names, "loop.cursor")
        if isinstance(prepared, Outcome):
            return prepared
        self._wrong = None
        outcome: Outcome | Judged = yield ClaimRows(
            task, attempt, names, prepared, frame_claim.id_of(command), left, self._keep)
        if isinstance(outcome, Judged):
            self.notes.note(*outcome.events)
            yield Flush()
            return ok()
        yield Settle()  # a claim that took too long may have been cut short while it wrote
        self.notes.forget()
        return self._unless_wrong(outcome)

    def _unless_wrong(self, outcome: Outcome) -> Outcome:
        if isinstance(self._wrong, Exception):
            raise self._wrong
        return outcome if self._wrong is None else self._wrong

    def _task(self) -> Task:
        cursor = self._step.loop.cursor if self._step.loop is not None else None
        assert cursor is not None
        return cursor.claim

    def _keep(self, outcome: Outcome) -> Steps[bool]:
        """Writes the rows into the log; whether they are to be committed. What goes wrong is kept for later: the
        transaction is the tool's to end."""
        try:
            self._wrong = frame_claim.misfit(outcome.result, self._command.count)
            if self._wrong is None:
                rows = outcome.result["rows"]
                self.notes.note(ev.FrameClaimed(len(rows), rows))
                yield Flush()
                yield from self._counts()
        except (NoetlError, Fenced) as error:
            self._wrong = error
        return self._wrong is None

    def _counts(self) -> Steps[None]:
        """Raises Fenced when the record is not the answer for this frame, but came after another worker took it."""
        for pause in LAG_S:
            known: History = yield Read()
            if known.over and known.epoch == self.notes.lease.epoch:
                return
            ownership.check(self.notes.lease, known.epoch, over=known.over, held=known.held)
            now: float = yield Now()
            yield Sleep(now + pause)
        raise Unavailable("the log does not show this worker's own record yet")
