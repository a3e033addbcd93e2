"""The router's state of one execution and its fold.

Own records (router) change tokens, runs, ctx and status. Inputs change one thing: the end of a run.
A worker's record counts only if no higher epoch holds the run, and only until the run has ended, so
zombies, duplicates and late reports fold to nothing, in whatever order they come.
"""

from typing import Any, Literal

from msgspec import Struct

from shared.engine.patch import apply_patch
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import Epoch, Lease, Record
from shared.events.stamp import seconds

Status = Literal["new", "running", "completed", "failed"]


class Token(Struct, frozen=True):
    token_id: str
    step: str
    args: dict[str, Any]


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


class Run(Struct, frozen=True, omit_defaults=True):
    run_id: str
    step: str
    args: dict[str, Any] = {}
    epoch: Epoch = (0, 0)
    end: End | None = None


class Execution(Struct):
    """Only `evolve` and `draft` make new ones; nobody changes one that was handed out."""

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
    n: int = 0
    seq: int = 0
    as_of: int = 0


def draft(state: Execution) -> Execution:
    """A copy that may be changed."""
    return Execution(
        state.execution_id, state.status, state.digest, state.started, state.workload, state.ctx,
        dict(state.results), dict(state.tokens), dict(state.runs), dict(state.counts),
        state.tokens_made, state.result, state.error, state.n, state.seq, state.as_of,
    )


def evolve(state: Execution, record: Record, seq: int) -> Execution:
    """The state after one more record of the execution."""
    new = draft(state)
    if record.writer == "router":
        if record.n != new.n + 1:
            raise Corrupt(f"{record.execution_id}: router event {record.n} follows {new.n}: the log has a gap")
        for event in record.events:
            apply(new, event, record.ts)
        new.n += len(record.events)
        new.seq = seq
    else:
        _fold_input(new, record, seq)
        new.as_of = max(new.as_of, seq)
    return new


def apply(state: Execution, event: ev.Event, ts: str) -> None:
    """One of the router's own events, in place (on a draft)."""
    match event:
        case ev.TokenCreated(token_id=token_id, step=step, args=args):
            state.tokens[token_id] = Token(token_id, step, args)
            state.tokens_made += 1
        case ev.StepScheduled(run_id=run_id, step=step):
            for token in event.tokens:
                del state.tokens[token]
            state.runs[run_id] = Run(run_id, step, event.args)
            state.counts[step] = state.counts.get(step, 0) + 1
        case ev.NextSelected(run_id=run_id):
            _close(state, state.runs.pop(run_id), event.event)
        case ev.CtxPatched(patch=patch):
            state.ctx = apply_patch(state.ctx, patch)
        case ev.TokenRejected(token_id=token_id):
            del state.tokens[token_id]
        case ev.StepCancelled(run_id=run_id):
            del state.runs[run_id]
        case ev.RequestEvaluated(digest=digest):
            state.digest = digest
        case ev.PlaybookStarted(workload=workload):
            state.workload = workload
            state.status = "running"
            state.started = seconds(ts)
        case ev.WorkflowFinished(status=status):
            state.status = status
        case ev.PlaybookProcessed(status=status, result=result, error=error):
            state.status, state.result, state.error = status, result, error


def _close(state: Execution, run: Run, boundary: str) -> None:
    if run.end is not None and boundary != "step.failed":
        state.results[run.step] = run.end.result
        state.result = run.end.result


def _fold_input(state: Execution, record: Record, seq: int) -> None:
    if record.lease is not None:
        _fold_report(state, record, record.lease, seq)
        return
    for event in record.events:
        run = state.runs.get(getattr(event, "run_id", ""))
        if run is not None and run.end is None and (end := _end(event, seq)) is not None:
            state.runs[run.run_id] = Run(run.run_id, run.step, run.args, run.epoch, end)


def _fold_report(state: Execution, record: Record, lease: Lease, seq: int) -> None:
    """Only the last event of a lease's record can be terminal."""
    run = state.runs.get(lease.run_id)
    if run is not None and run.end is None and lease.epoch >= run.epoch:
        end = _end(record.events[-1], seq)
        state.runs[run.run_id] = Run(run.run_id, run.step, run.args, lease.epoch, end)


def _end(event: ev.Event, seq: int) -> End | None:
    match event:
        case ev.StepDone(result=result, ctx=ctx):
            return End("step.done", seq, result, None, ctx)
        case ev.StepFailed(error=error, ctx=ctx):
            return End("step.failed", seq, Result(), error, ctx)
        case ev.LoopDone(result=result, ctx=ctx):
            return End("loop.done", seq, result, None, ctx, event.count, event.failed, event.failures)
    return None


def ended(state: Execution) -> list[Run]:
    """Runs whose end has not been routed yet, in the order of the log."""
    found = [run for run in state.runs.values() if run.end is not None]
    if len(found) > 1:
        found.sort(key=lambda run: run.end.seq if run.end else 0)
    return found
