"""The scheduler's state of one execution and its fold: runs at workers, and loops.

Iteration reports count only from the highest epoch seen, only once, and only while the iteration is
in flight. In a parallel loop an iteration that writes a ctx key another one wrote is failed by the
fold itself (`ctx_conflict`), so every reader agrees on which one.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.engine.patch import plain_keys
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import Epoch, Lease, Record
from shared.events.stamp import seconds


class Dispatch(Struct, frozen=True):
    """A plain run that a worker should have; `cause` is the log sequence it was scheduled at."""

    event: ev.StepScheduled
    cause: int


class Loop(Struct):
    """A loop-run. A draft owns it; a state handed out is never changed."""

    event: ev.StepScheduled
    cause: int
    started: ev.LoopStarted | None = None
    started_at: float = 0.0
    next: int = 0
    live: dict[int, Epoch] = {}
    results: dict[int, Result] = {}
    failures: dict[int, dict[str, Any]] = {}
    clashes: tuple[int, ...] = ()
    patches: tuple[ev.Patch, ...] = ()
    patched_bytes: int = 0
    written: frozenset[str] = frozenset()
    parallel: bool = False


class Schedule(Struct):
    execution_id: str
    runs: dict[str, Dispatch] = {}
    loops: dict[str, Loop] = {}
    finished: bool = False
    n: int = 0
    seq: int = 0
    as_of: int = 0


def _copy(loop: Loop) -> Loop:
    return replace(
        loop, live=dict(loop.live), results=dict(loop.results), failures=dict(loop.failures)
    )


def draft(state: Schedule) -> Schedule:
    loops = {run_id: _copy(loop) for run_id, loop in state.loops.items()} if state.loops else {}
    return Schedule(state.execution_id, dict(state.runs), loops, state.finished, state.n, state.seq, state.as_of)


def evolve(state: Schedule, records: list[tuple[int, Record]]) -> Schedule:
    """The state after more records of the execution, in log order (one copy for the whole batch)."""
    new = draft(state)
    for seq, record in records:
        if record.writer == "scheduler":
            if record.n != new.n + 1:
                raise Corrupt(f"{record.execution_id}: scheduler event {record.n} follows {new.n}: the log has a gap")
            for event in record.events:
                apply(new, event, record.ts)
            new.n += len(record.events)
            new.seq = seq
            continue
        if record.writer == "router":
            _fold_router(new, record, seq)
        elif record.lease is not None:
            _fold_report(new, record, record.lease)
        new.as_of = max(new.as_of, seq)
    return new


def _fold_router(state: Schedule, record: Record, seq: int) -> None:
    for event in record.events:
        match event:
            case ev.StepScheduled(run_id=run_id, pool=pool) if pool:
                if event.loop:
                    state.loops[run_id] = Loop(event, seq)
                else:
                    state.runs[run_id] = Dispatch(event, seq)
            case ev.NextSelected(run_id=run_id) | ev.StepCancelled(run_id=run_id):
                state.runs.pop(run_id, None)
                state.loops.pop(run_id, None)
            case ev.PlaybookProcessed():
                state.finished = True
                state.runs, state.loops = {}, {}


def _fold_report(state: Schedule, record: Record, lease: Lease) -> None:
    loop = state.loops.get(lease.run_id)
    if loop is None or lease.index not in loop.live or lease.epoch < loop.live[lease.index]:
        return
    loop.live[lease.index] = lease.epoch
    for event in record.events:
        match event:
            case ev.IterationDone(result=result, ctx=ctx):
                _settle(loop, lease.index, ctx, result, None)
            case ev.IterationFailed(error=error, ctx=ctx):
                _settle(loop, lease.index, ctx, Result(), error)


def _settle(
    loop: Loop, index: int, ctx: tuple[ev.Patch, ...], result: Result, error: dict[str, Any] | None
) -> None:
    loop.live.pop(index, None)
    keys = frozenset().union(*(plain_keys(patch) for patch in ctx)) if ctx else frozenset()
    clash = keys & loop.written if loop.parallel else frozenset()
    if clash:
        message = f"another iteration already wrote ctx.{min(clash)}; use a reducer such as $append"
        loop.failures[index] = {"kind": "ctx_conflict", "message": message, "retryable": False}
        loop.clashes = (*loop.clashes, index)
        return
    if ctx:
        loop.written |= keys
        loop.patches += ctx
        loop.patched_bytes += len(msgspec.json.encode(ctx))
    if error is None:
        loop.results[index] = result
    else:
        loop.failures[index] = error


def apply(state: Schedule, event: ev.Event, ts: str) -> None:
    """One of the scheduler's own events, in place (on a draft)."""
    match event:
        case ev.LoopStarted(run_id=run_id) if run_id in state.loops:
            loop = state.loops[run_id]
            loop.started, loop.started_at = event, seconds(ts)
            loop.parallel = event.parallel
        case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in state.loops:
            loop = state.loops[run_id]
            loop.live.update(dict.fromkeys(range(first, first + count), (0, 0)))
            loop.next = first + count
        case ev.IterationFailed(run_id=run_id, index=index) if run_id in state.loops:
            loop = state.loops[run_id]
            loop.clashes = tuple(clash for clash in loop.clashes if clash != index)
        case ev.LoopDone(run_id=run_id) | ev.StepFailed(run_id=run_id):
            state.loops.pop(run_id, None)
