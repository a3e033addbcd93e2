"""The router's state of one execution and its fold.

1. Own records (router) change tokens, runs, ctx and status. They are numbered without a gap, and each must be possible
   in the state before it: anything else means a damaged log, and the fold refuses to continue (`Corrupt`).
2. Inputs change only three things: how a run ended, whether a worker has it, and what people wish. They never make or
   remove a token or a run: only a decision does.
3. Which of a worker's records count says the fence (`leases/fence.py`); whether they fit, `leases/lease_fit.py`.
   Zombies, duplicates and late reports fold to nothing.
4. The first end of a run stays its end.
5. Of wishes to pause and resume the latest counts, by the time the broker accepted the request: two routers may pass
   them on in another order. A cancel cannot be withdrawn: the first one counts.
6. A decision applies each of its events to a draft (`decide.py`), so it has the state that the log will give. When the
   broker accepts just that record, the draft becomes the state (`accepted`), and is folded by nobody again. A state
   that is loaded, and every one that is verified, comes of the fold; both must be equal.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.engine.leases.fence import NOBODY, counts, last_number
from shared.engine.leases.lease_fit import Known, misfit, was_scheduled
from shared.engine.values.ctx_patch import apply_patch
from shared.errors import Corrupt, TemplateError
from shared.events import model as ev
from shared.events.failure import CANCELLED, Failure
from shared.events.outcome import Result
from shared.events.record import Epoch, Lease, Record, event_type
from shared.events.run_index import is_run
from shared.events.stamp import seconds

Status = Literal["new", "running", "cancelling", "compensating", "completed", "failed", "cancelled"]
LIVE = ("running", "cancelling", "compensating")


class End(Struct, frozen=True, omit_defaults=True):
    """How a run ended: its boundary event, as routing sees it."""

    event: Literal["step.done", "step.failed", "loop.done"]
    seq: int
    result: Result = Result()
    error: dict[str, Any] | None = None
    ctx: tuple[ev.Patch, ...] = ()
    count: int = 0
    failed: int = 0
    failures: list[dict[str, Any]] = []


class Token(Struct, frozen=True, omit_defaults=True):
    """`past`: for every step that counts waves, the latest wave from which the token descends. `end`: the boundary
    event that made it, which admission may read; a token that nothing but the request made has none."""

    token_id: str
    step: str
    args: dict[str, Any]
    past: dict[str, int] = {}
    end: End | None = None


class Run(Struct, frozen=True, omit_defaults=True):
    """`cause` is the sequence of the record that scheduled it, 0 before there is one. `epoch` and `n` are those of the
    last event of its leases that counted."""

    run_id: str
    step: str
    args: dict[str, Any] = {}
    epoch: Epoch = NOBODY
    end: End | None = None
    pool: str = ""
    loop: bool = False
    parked: Literal["", "time", "child", "released"] = ""
    past: dict[str, int] = {}
    undo: bool = False
    compensates: str = ""
    cause: int = 0
    n: int = 0


class Undo(Struct, frozen=True):
    """A completed run that is compensated if the execution does not complete; `size` in bytes."""

    run_id: str
    step: str
    args: dict[str, Any]
    result: Result
    size: int = 0


class Fate(Struct, frozen=True):
    """How the execution ends once it is compensated."""

    status: ev.Ending
    error: dict[str, Any]


class Execution(Struct):
    """Only `evolve` and `draft` make new ones; one that was handed out never changes.

    `passed` is the `past` of the run that ended last, `closed` how it ended, for the tokens that follow from it.
    `undo` are the runs to compensate, in the order in which they completed; `undone` those whose compensation was
    begun; `faults` what went wrong with it. `pools` are those chosen for steps that require capabilities.
    """

    execution_id: str
    status: Status = "new"
    digest: str = ""
    started: float = 0.0
    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    results: dict[str, Result] = {}
    tokens: dict[str, Token] = {}
    runs: dict[str, Run] = {}
    counts: dict[str, int] = {}
    tokens_made: int = 0
    result: Result | None = None
    error: dict[str, Any] | None = None
    parent: ev.Parent | None = None
    cancel: ev.CancelRequested | None = None
    until: str = ""
    wish: ev.PauseRequested | ev.ResumeRequested | None = None
    paused: bool = False
    wished: int = 0
    passed: dict[str, int] = {}
    closed: End | None = None
    undo: tuple[Undo, ...] = ()
    undone: tuple[str, ...] = ()
    faults: tuple[dict[str, Any], ...] = ()
    fate: Fate | None = None
    pools: dict[str, str] = {}
    n: int = 0
    seq: int = 0
    as_of: int = 0


def draft(state: Execution) -> Execution:
    """A copy that may be changed."""
    return replace(
        state, results=state.results.copy(), tokens=state.tokens.copy(), runs=state.runs.copy(),
        counts=state.counts.copy(),
    )


def evolve(state: Execution, record: Record, seq: int, fitting: set[int] | None = None) -> Execution:
    """The state after one more record of the execution. Its sequence is added to `fitting` if it is found to fit."""
    if record.writer == "router":
        new = draft(state)
        _check_number(new, record)
        _fold_own(new, record, seq)
        return _passed(new, record, seq)
    new = replace(state, runs=state.runs.copy(), as_of=max(state.as_of, seq))  # an input changes none of the others
    if record.lease is None:
        _fold_input(new, record, seq)
    elif _fold_report(new, record, record.lease, seq) and fitting is not None:
        fitting.add(seq)
    return new


def accepted(after: Execution, record: Record, seq: int) -> Execution:
    """What `evolve` makes of an own record, from the draft at which its decision arrived (rule 6): what the events say
    is in there, except where in the log they are. In place."""
    _check_number(after, record)
    for event in record.events:
        if type(event) is ev.StepScheduled and (run := after.runs.get(event.run_id)) is not None:
            after.runs[event.run_id] = replace(run, cause=seq)
    return _passed(after, record, seq)


def _check_number(state: Execution, record: Record) -> None:
    if record.n != state.n + 1:
        raise Corrupt(f"{record.execution_id}: router event {record.n} follows {state.n}: the log has a gap")


def _passed(state: Execution, record: Record, seq: int) -> Execution:
    state.closed = None  # the tokens that follow from an end are in the same record
    state.n += len(record.events)
    state.seq = seq
    return state


def _fold_own(state: Execution, record: Record, seq: int) -> None:
    for event in record.events:
        try:
            apply(state, event, record.ts, seq)
        except (LookupError, TemplateError) as error:
            what = f"{event_type(event)} at {seq} does not follow from what came before: {error}"
            raise Corrupt(f"{record.execution_id}: {what}") from None


def apply(state: Execution, event: ev.Event, ts: str, seq: int = 0) -> None:
    """One of the router's own events, in place (on a draft); `seq` 0: it is not in the log yet. The frequent ones by a
    table: a class pattern that does not match costs as much as one that does."""
    if (change := FREQUENT.get(type(event))) is not None:
        change(state, event, seq)
        return
    match event:
        case ev.CtxPatched(patch=patch):
            state.ctx = apply_patch(state.ctx, patch)
        case ev.TokenRejected(token_id=token_id) | ev.TokenAbsorbed(token_id=token_id):
            del state.tokens[token_id]
        case ev.StepCancelled(run_id=run_id) if state.status == "running":
            del state.runs[run_id]
        case ev.PlaybookCancelling(until=until):
            state.status, state.until, state.tokens = "cancelling", until, {}
        case ev.PlaybookCompensating(status=status, error=error, until=until):
            state.status, state.until, state.tokens, state.paused = "compensating", until, {}, False
            state.fate = Fate(status, error)
        case ev.CompensationFailed(compensates=compensates, step=step, error=error, run_id=run_id):
            state.faults += ({"compensates": compensates, "step": step, "run_id": run_id, "error": error},)
            if not run_id:
                state.undone += (compensates,)
        case ev.PlaybookPaused() | ev.PlaybookResumed():
            state.paused, state.wish = isinstance(event, ev.PlaybookPaused), None
        case ev.PlaybookStarted(workload=workload):
            state.workload = workload
            state.status = "running"
            state.started = seconds(ts)
        case ev.PlaybookRestored(ctx=ctx, results=results):
            state.ctx, state.results = ctx, dict(results)


def _put(state: Execution, event: ev.TokenCreated, _: int) -> None:
    past, end = (state.passed, state.closed) if event.parent_run_id else ({}, None)
    state.tokens[event.token_id] = Token(event.token_id, event.step, event.args, past, end)
    state.tokens_made += 1


def _enter(state: Execution, event: ev.StepScheduled, seq: int) -> None:
    step = event.step
    past: dict[str, int] = {}
    for token_id in event.tokens:
        for name, wave in state.tokens.pop(token_id).past.items():
            past[name] = max(wave, past.get(name, 0))
    if event.wave:
        past[step] = event.wave
    if event.compensates:
        state.undone += (event.compensates,)
    state.runs[event.run_id] = Run(
        event.run_id, step, event.args, pool=event.pool, loop=event.loop,
        past=past, undo=event.undo, compensates=event.compensates, cause=seq,
    )
    state.counts[step] = state.counts.get(step, 0) + 1


def _close(state: Execution, event: ev.NextSelected, _: int) -> None:
    run = state.runs.pop(event.run_id)
    end = run.end
    state.passed, state.closed = run.past, _boundary(end, event)
    if event.event == "step.failed":
        return
    if end is not None:
        state.results[run.step] = end.result
        state.result = end.result
    if run.undo:
        state.undo += (undo_of(run),)


def _boundary(end: End | None, event: ev.NextSelected) -> End:
    """The event that was routed. A step without tools ends by its decision alone, and a success whose ctx cannot be
    written is routed as a failure."""
    if end is None or end.event != event.event:
        return End("step.failed" if event.event == "step.failed" else "step.done", 0)
    return replace(end, ctx=()) if end.ctx else end


def _ask(state: Execution, event: ev.ExecutionRequested, _: int) -> None:
    state.parent = event.parent


def _bind(state: Execution, event: ev.RequestEvaluated, _: int) -> None:
    state.digest, state.pools = event.digest, event.pools


def _finish(state: Execution, event: ev.WorkflowFinished, _: int) -> None:
    state.status = event.status


def _end_of_all(state: Execution, event: ev.PlaybookProcessed, _: int) -> None:
    state.status, state.result, state.error = event.status, event.result, event.error


def _nothing(_: Execution, __: ev.Event, ___: int) -> None:
    pass


FREQUENT: dict[type[Any], Callable[[Execution, Any, int], None]] = {
    ev.NextSelected: _close, ev.TokenCreated: _put, ev.StepScheduled: _enter,
    ev.ExecutionRequested: _ask, ev.RequestEvaluated: _bind, ev.WorkflowStarted: _nothing,
    ev.WorkflowFinished: _finish, ev.PlaybookProcessed: _end_of_all,
}


def undo_of(run: Run) -> Undo:
    result = run.end.result if run.end is not None else Result()
    return Undo(run.run_id, run.step, run.args, result, len(msgspec.json.encode((run.args, result))))


def _fold_input(state: Execution, record: Record, seq: int) -> None:
    """What a scheduler or people say."""
    for event in record.events:
        match event:
            case ev.CancelRequested():
                state.cancel = state.cancel or event
            case ev.PauseRequested(at=at) | ev.ResumeRequested(at=at) if at > state.wished:
                state.wish, state.wished = event, at
            case ev.ChildEnded(run_id=run_id, index=index) if is_run(index):
                _change(state, run_id, parked="time")
            case ev.TaskResumed(run_id=run_id, index=index) if is_run(index):
                _change(state, run_id, parked="")
            case _:
                run_id, end = getattr(event, "run_id", ""), _end(event, seq)
                if end is not None and run_id in state.runs and state.runs[run_id].end is None:
                    _change(state, run_id, end=end)


def _change(state: Execution, run_id: str, **fields: Any) -> None:
    if run_id in state.runs:
        state.runs[run_id] = replace(state.runs[run_id], **fields)


def _fold_report(state: Execution, record: Record, lease: Lease, seq: int) -> bool:
    """Whether it fits. Only the last event of a lease's record can end the run, or park it: whatever has more after it
    does not fit."""
    run = state.runs.get(lease.run_id)
    if run is None or run.end is not None or not is_run(lease.index) or not counts(record, run.epoch, run.n):
        return False
    if misfit(seq, record, known(run)):
        return False
    last = record.events[-1]
    end = _end(last, seq)
    state.runs[run.run_id] = replace(
        run, epoch=lease.epoch, n=last_number(record), end=end, parked=_parked(last) if end is None else ""
    )
    return True


def known(run: Run) -> Known:
    return Known(run.step, run.pool, run.loop, run.cause)


def unfit(state: Execution, record: Record, seq: int) -> str:
    """Why a record of a lease does not fit; empty if it does, or is only late: its run is over."""
    if record.lease is None:
        return ""
    run_id = record.lease.run_id
    run = state.runs.get(run_id)
    if run is not None:
        if run.end is not None and run.end.seq == seq:
            return ""  # it is this record that ended it
        return misfit(seq, record, known(run))
    return "" if was_scheduled(state.counts, run_id) else misfit(seq, record, None)


def _parked(last: ev.Event) -> Literal["", "time", "child", "released"]:
    """Why no worker has the run, by the last event of its lease."""
    match last:
        case ev.TaskWaiting(child=child):
            return "time" if child is None else "child"
        case ev.LeaseReleased():
            return "released"
    return ""


def _end(event: ev.Event, seq: int) -> End | None:
    match event:
        case ev.StepDone(result=result, ctx=ctx):
            return End("step.done", seq, result, None, ctx)
        case ev.StepFailed(error=error, ctx=ctx):
            return End("step.failed", seq, Result(), error, ctx)
        case ev.StepCancelled(reason=reason):
            return End("step.failed", seq, error=Failure(CANCELLED, reason).error())
        case ev.LoopDone(result=result, ctx=ctx):
            return End(
                event="loop.done", seq=seq, result=result, error=None, ctx=ctx, count=event.count, failed=event.failed,
                failures=event.failures,
            )
    return None


def ended(state: Execution) -> list[Run]:
    """Runs whose end has not been routed yet, in the order of the log."""
    found = [run for run in state.runs.values() if run.end is not None]
    if len(found) > 1:
        found.sort(key=lambda run: run.end.seq if run.end else 0)
    return found


def is_at_work(run: Run) -> bool:
    """According to the log, a worker holds it or it waits for a child. Of a loop the router cannot tell: the scheduler
    watches its iterations and says when they have stopped."""
    if run.end is not None:
        return False
    return run.loop or run.parked == "child" or (run.parked == "" and run.epoch > NOBODY)


def is_over(state: Execution) -> bool:
    return state.status in ("completed", "failed", "cancelled")
