"""What a new execution takes over from an earlier one: its results, its ctx, and where it continues.

From a step: everything as it was when that step was last entered, one token there with its args, the tokens that were
elsewhere, and one for each run that was under way beside it: what it came to later is not taken over. What
failed: everything as it was in the end, a token for each run that failed or was stopped with the execution,
and the tokens that were still waiting. A loop among these continues with the iterations that did not succeed
(`loops.py`).
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from shared.answers.rerun.loops import leftovers
from shared.engine.routing.state import Execution, apply, draft, evolve
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.readers import FOLDED
from shared.events.record import Record

Entry = tuple[int, Record]
NO_VALUES: Values = {}


def from_step(execution_id: str, entries: Sequence[Entry], step: str) -> ev.PlaybookRestored | str:
    """What is taken over; or why nothing can be."""
    state, before, entered = Execution(execution_id), None, None
    for seq, record in entries:
        for at, event in enumerate(record.events):
            if isinstance(event, ev.StepScheduled) and event.step == step:
                before, entered = _until(state, record, at), event
        state = evolve(state, record, seq)
    if before is None or entered is None:
        return f"execution {execution_id} never came to a step {step!r}"
    if any(undo.run_id in state.undone for undo in before.undo):
        return _undone(execution_id)
    beside = [ev.Restart(run.step, run.args) for run in before.runs.values()]
    beside += [ev.Restart(token.step, token.args) for key, token in before.tokens.items() if key not in entered.tokens]
    return _restored(before, [ev.Restart(step, entered.args), *beside])


class Kept(Struct, frozen=True):
    """Steps whose past stays: `entered`, and not to run again; `refused`, where a token was turned away."""

    entered: frozenset[str]
    refused: frozenset[str]


def kept(entries: Sequence[Entry], restored: ev.PlaybookRestored, step: str) -> Kept:
    """Up to where the `step` was last entered; without one, up to the end."""
    events = [event for _, record in entries if record.writer == "router" for event in record.events]
    if step:
        last = max(at for at, event in enumerate(events) if isinstance(event, ev.StepScheduled) and event.step == step)
        events = events[:last]
    entered = {event.step for event in events if isinstance(event, ev.StepScheduled)}
    refused = {event.step for event in events if isinstance(event, ev.TokenRejected | ev.TokenAbsorbed)}
    again = {token.step for token in restored.tokens}
    return Kept(frozenset({*entered, *restored.results} - again), frozenset(refused))


def _until(state: Execution, record: Record, at: int) -> Execution:
    """The state in the middle of a decision."""
    state = draft(state)
    for event in record.events[:at]:
        apply(state, event, record.ts)
    return state


def what_failed(
    execution_id: str, entries: Sequence[Entry], values: Values = NO_VALUES
) -> ev.PlaybookRestored | str:
    """`entries` are the records of all writers. Raises `Missing` for a stored value that is not among `values`."""
    state = Execution(execution_id)
    runs: dict[str, ev.StepScheduled] = {}
    stopped: list[str] = []
    for seq, record in entries:
        if record.writer not in FOLDED["router"]:
            continue
        state = evolve(state, record, seq)
        for event in record.events if record.writer == "router" else ():
            match event:
                case ev.StepScheduled(run_id=run_id):
                    runs[run_id] = event
                case ev.NextSelected() | ev.StepCancelled() if is_stop(event):
                    stopped.append(event.run_id)
    if why_not := refusal(state, stopped=bool(stopped)):
        return why_not
    loops = leftovers(execution_id, entries, [run_id for run_id in stopped if runs[run_id].loop], values)
    again = [ev.Restart(runs[run_id].step, runs[run_id].args, loops.get(run_id)) for run_id in stopped]
    again += [ev.Restart(token.step, token.args) for token in state.tokens.values()]
    return _restored(state, again)


def is_stop(event: ev.Event) -> bool:
    """A run ended so that nothing follows it."""
    match event:
        case ev.NextSelected(event="step.failed", arcs=()) | ev.StepCancelled():
            return True
    return False


def refusal(state: Execution, *, stopped: bool) -> str:
    """Why what failed cannot be run again; empty when it can. `stopped`: a run failed, or was stopped with the rest."""
    if state.status not in ("failed", "cancelled"):
        return f"execution {state.execution_id} is {state.status}: nothing of it failed"
    if state.undone:
        return _undone(state.execution_id)
    return "" if stopped or state.tokens else f"execution {state.execution_id} has nothing to go on with"


def _undone(execution_id: str) -> str:
    return f"execution {execution_id} was compensated, so what it would go on from is undone: execute it anew"


def _restored(state: Execution, tokens: Iterable[ev.Restart]) -> ev.PlaybookRestored:
    return ev.PlaybookRestored(state.execution_id, state.ctx, state.results, tuple(tokens))
