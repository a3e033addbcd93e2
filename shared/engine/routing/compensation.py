"""Compensation (V10 §15): what is done is undone before an execution ends as failed or cancelled.

1. It is a phase of the execution (`playbook.compensating`), between the decision that it ends so and its end. The fate,
   failed or cancelled, is fixed when the phase begins.
2. First, what still runs is stopped and waited for, within a grace: undoing while the same work may still be going on
   would leave both half done. A run that completes all the same counts as done, and is undone too.
3. Every completed run whose step names a compensation is undone by a run of that step: the last to complete first, one
   after the other. It gets the run's args, and reads the run's result as `compensates`. Such a run is like any other,
   without a token: leases, retries and takeover need nothing new.
4. A compensation that fails is reported in the final error, and the next one runs: stopping there would leave more done
   than a gap does.
5. Nothing stops it: no deadline of the execution, no pause, no second cancel. The work is bounded: runs to undo
   are limited in number and size while they are collected (`over_limit`), and each is begun once (`undone`).
"""

from typing import Any, Protocol

import msgspec

from shared.dsl.model.plan import Compensate, Plan, Step
from shared.dsl.templates.evaluate import evaluate
from shared.dsl.templates.needs import names_used
from shared.engine.routing.state import End, Execution, Fate, Run, Undo, is_at_work, undo_of
from shared.engine.values import time_limits
from shared.engine.values.scope import narrow, visible
from shared.engine.values.stored_values import Values, resolve_scope
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.failure import LIMIT, Failure
from shared.events.outcome import Result
from shared.events.stamp import seconds, stamp

GRACE_S = 10.0               # for what still runs when the execution fails
MAX_UNDOS = 1000             # completed runs that one execution can compensate
MAX_UNDO_BYTES = 8_388_608   # of their args and results
MAX_CALL_BYTES = 450_000     # of the args of one compensation
MAX_FAULTS_LISTED = 100
MAX_FAULTS_BYTES = 65_536
RESULT = "compensates"       # what the compensated run's result is called


class Turn(Protocol):
    """A decision under way (`decide.py`)."""

    state: Execution
    now: float
    values: Values

    @property
    def plan(self) -> Plan: ...

    @property
    def caller(self) -> dict[str, Any]: ...

    def emit(self, event: ev.Event) -> None: ...

    def patch_ctx(self, run: Run, end: End) -> End: ...


class Ender(Protocol):
    """As much of a decision as ends the execution."""

    state: Execution
    now: float

    def emit(self, event: ev.Event) -> None: ...


def end(turn: Ender, fate: Fate, reason: str) -> None:
    """Ends the execution with this fate: at once, or after compensation if there is anything to undo."""
    state = turn.state
    stopping = state.status == "cancelling"
    undoing = bool(state.undo) or any(run.undo for run in state.runs.values())
    if undoing:
        turn.emit(ev.PlaybookCompensating(fate.status, fate.error, stamp(turn.now + (0.0 if stopping else GRACE_S))))
    for run in list(state.runs.values()) if not stopping else ():
        if run.end is None or not undoing:
            turn.emit(ev.StepCancelled(run.run_id, run.step, reason, run.pool))
    if not undoing:
        turn.emit(ev.WorkflowFinished(fate.status))
        turn.emit(ev.PlaybookProcessed(fate.status, None, fate.error))


def over_limit(state: Execution) -> str:
    """Why the execution cannot keep another run to compensate; empty if it can."""
    if len(state.undo) > MAX_UNDOS:
        return f"over {MAX_UNDOS} runs to compensate: let fewer steps name one, or call a playbook in the cycle"
    if sum(each.size for each in state.undo) > MAX_UNDO_BYTES:
        return f"args and results to compensate are over {MAX_UNDO_BYTES} bytes: let the steps return references"
    return ""


def due(state: Execution) -> float | None:
    """When the grace for what still runs is over. While a compensation runs, nothing follows from time alone."""
    undoing = any(run.compensates for run in state.runs.values())
    return seconds(state.until) if _stopping(state) and not undoing else None


def advance(turn: Turn) -> None:
    """Everything that follows while compensating. A run whose worker began it before it heard the stop is waited for as
    well."""
    state = turn.state
    while True:
        run = next((run for run in state.runs.values() if run.compensates), None)
        if run is not None:
            if run.end is None:
                return
            _close(turn, run, run.end)
        if _stopping(state) and turn.now < seconds(state.until):
            return
        undo = next_undo(state)
        if undo is None:
            _finish(turn)
            return
        _begin(turn, undo)


def next_undo(state: Execution) -> Undo | None:
    """The run that completed last of those not yet compensated. Runs that completed after the execution had failed are
    the latest, so they come first."""
    late = [run for run in state.runs.values() if run.undo and run.end is not None and run.end.event != "step.failed"]
    late.sort(key=lambda run: run.end.seq if run.end else 0)
    found = [*state.undo, *map(undo_of, late)]
    return next((undo for undo in reversed(found) if undo.run_id not in state.undone), None)


def _stopping(state: Execution) -> bool:
    return any(is_at_work(run) for run in state.runs.values() if not run.compensates)


def _begin(turn: Turn, undo: Undo) -> None:
    given = turn.plan.steps[undo.step].compensate
    assert given is not None  # the plan that said `undo` when the run was scheduled
    step, state = turn.plan.steps[given.step], turn.state
    run_id = f"{step.name}:{state.counts.get(step.name, 0) + 1}"
    try:
        args = _args(turn, given, undo)
    except TemplateError as error:
        message = f"compensate.args of step {undo.step}: {error}"
        turn.emit(ev.CompensationFailed(undo.run_id, step.name, Failure(error.kind, message).error()))
        return
    size = len(msgspec.json.encode(args))
    if size > MAX_CALL_BYTES:
        message = f"args of {size} bytes, over {MAX_CALL_BYTES}: give compensate smaller args"
        turn.emit(ev.CompensationFailed(undo.run_id, step.name, Failure(LIMIT, message).error()))
        return
    deadline, by = time_limits.first(turn.plan, step, turn.now)
    turn.emit(ev.StepScheduled(
        run_id=run_id, step=step.name, tokens=(), digest=turn.plan.digest, pool=state.pools.get(step.name, step.pool),
        loop=step.loop is not None, args=args, scope=_scope(turn, step, undo),
        deadline=deadline, due_by=by, compensates=undo.run_id,
        limited=step.limit is not None,
    ))


def _args(turn: Turn, given: Compensate, undo: Undo) -> dict[str, Any]:
    if given.args is None:
        return undo.args
    results = {**turn.state.results, RESULT: _told(undo)}
    scope = narrow(names_used(given.args), turn.state.workload, turn.state.ctx, results, turn.caller)
    scope = resolve_scope(scope, None, turn.values)
    found: dict[str, Any] = evaluate(given.args, visible(turn.state.execution_id, scope, undo.args))
    return found


def _scope(turn: Turn, step: Step, undo: Undo) -> ev.Scope:
    results = {**turn.state.results, RESULT: _told(undo)}
    return narrow(step.needs, turn.state.workload, turn.state.ctx, results, turn.caller)


def _told(undo: Undo) -> Result:
    """The run's result, with the id and step of the run as fields beside it."""
    beside = {**undo.result.fields, "_run_id": undo.run_id, "_step": undo.step}
    return msgspec.structs.replace(undo.result, fields=beside)


def _close(turn: Turn, run: Run, end: End) -> None:
    end = turn.patch_ctx(run, end)
    turn.emit(ev.NextSelected(run.run_id, run.step, end.event))
    if end.event == "step.failed":
        turn.emit(ev.CompensationFailed(run.compensates, run.step, end.error or {}, run.run_id))


def _finish(turn: Turn) -> None:
    fate = turn.state.fate
    assert fate is not None
    faults = turn.state.faults
    error = {**fate.error, "compensation": _listed(faults)} if faults else fate.error
    turn.emit(ev.WorkflowFinished(fate.status))
    turn.emit(ev.PlaybookProcessed(fate.status, None, error))


def _listed(faults: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """The first faults; every one is in the log as `compensation.failed`."""
    listed: list[dict[str, Any]] = []
    size = 0
    for fault in faults[:MAX_FAULTS_LISTED]:
        size += len(msgspec.json.encode(fault))
        if size > MAX_FAULTS_BYTES:
            break
        listed.append(fault)
    return listed
