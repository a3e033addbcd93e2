"""Cancel and pause: what people ask of a running execution, as the router decides it.

1. Cancel: no token moves from then on, and every run is stopped. The execution is over when nothing runs, according to
   the log, or when the grace is over. A cancelled child is waited for as well.
2. Pause: runs continue to their end, and nothing follows from it until someone resumes. Deadlines pass. Each wish is
   answered by an event, also one that changes nothing: a router that has missed another's decision finds out, because
   the broker refuses its record.
3. An execution that is being compensated accepts no wishes.
"""

from typing import Protocol

from shared.engine.routing import compensation
from shared.engine.routing.state import Execution, Fate, is_at_work
from shared.events import model as ev
from shared.events.failure import CANCELLED, Failure
from shared.events.stamp import seconds, stamp

MAX_GRACE_S = 300.0


class Turn(Protocol):
    state: Execution
    now: float

    def emit(self, event: ev.Event) -> None: ...


def wishes(turn: Turn) -> None:
    """Decides on the wishes that came since the last decision."""
    state = turn.state
    if state.status == "running" and state.cancel is not None:
        _cancel(turn, state.cancel)
    if state.status == "cancelling" and (
            turn.now >= seconds(state.until) or not any(is_at_work(run) for run in state.runs.values())):
        _over(turn)
    if state.status != "running":
        return
    match state.wish:
        case ev.PauseRequested(reason=reason, by=by):
            turn.emit(ev.PlaybookPaused(reason, by))
        case ev.ResumeRequested(by=by):
            turn.emit(ev.PlaybookResumed(by))


def due(state: Execution) -> float | None:
    if state.status == "compensating":
        return compensation.due(state)
    return seconds(state.until) if state.status == "cancelling" else None


def _cancel(turn: Turn, asked: ev.CancelRequested) -> None:
    grace = min(max(asked.grace_s, 0.0), MAX_GRACE_S)
    turn.emit(ev.PlaybookCancelling(stamp(turn.now + grace), asked.reason, asked.by))
    for run in list(turn.state.runs.values()):
        if run.end is None:
            turn.emit(ev.StepCancelled(run.run_id, run.step, "the execution is cancelled", run.pool))


def _over(turn: Turn) -> None:
    asked = turn.state.cancel
    reason = asked.reason if asked is not None and asked.reason else "cancelled"
    compensation.end(turn, Fate("cancelled", Failure(CANCELLED, reason).error()), reason)
