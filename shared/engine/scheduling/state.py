"""The scheduler's state of one execution and its fold: runs at workers, loops, waits and granted places.

1. Records are folded in log order. The scheduler's own are numbered without a gap: a gap means a damaged log, and the
   fold refuses to continue rather than decide from it (`Corrupt`).
2. A report counts if it fits (`leases/lease_fit.py`), no higher epoch came before it (`leases/fence.py`) and what it
   speaks of is still in flight. Anything else changes nothing, so repeats and late reports need no special care.
3. In a parallel loop, an iteration that writes a ctx key which another one wrote is failed by the fold itself
   (`ctx_conflict`). Log order decides which of the two, so every reader agrees.
4. `evolve` works on a draft; a state that was handed out never changes. Whoever holds one can compare, snapshot or
   discard it while the next is made.
5. What is over leaves the state. Of a cancelled loop, `stopping` keeps what still runs, until all of it has stopped.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.engine.leases.fence import NOBODY, is_outranked
from shared.engine.leases.lease_fit import Known, misfit, was_scheduled
from shared.engine.scheduling import cursor_rows, signals
from shared.engine.scheduling import limits as scheduling_limits
from shared.engine.scheduling import waits as waiting
from shared.engine.scheduling.waits import Wait
from shared.engine.values.chunked import Chunked
from shared.engine.values.ctx_patch import lasting, plain_keys
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.failure import CTX_CONFLICT, Failure, message_of, shortened
from shared.events.fields import PRIORITY
from shared.events.outcome import Result
from shared.events.record import Epoch, Lease, Record
from shared.events.run_index import FIRST_FRAME, RUN, frame_of, is_frame, is_iteration, is_run


class Dispatch(Struct, frozen=True):
    """A plain run that a worker should have. It was scheduled at the log sequence `cause`, at the time `at`."""

    event: ev.StepScheduled
    cause: int
    at: str = ""


MAX_FAILURES_KEPT = 1000  # in full; of any more, only the kind and the start of the message
MAX_FAILURE_TEXT = 200


class Loop(Struct):
    """A loop-run. `live` are the iterations in flight with the epoch that holds each, `sent` the sequence of the record
    that started each. `recent` are the iterations that ended since the last decision, with the sequence of the report:
    `stop_when` has not been evaluated for them. Of a local loop, `held` is the epoch of the worker that runs it, and
    `live` the iterations this worker has begun. `claims` are the rows of a cursor."""

    event: ev.StepScheduled
    cause: int
    started: ev.LoopStarted | None = None
    next: int = 0
    live: dict[int, Epoch] = {}
    sent: dict[int, int] = {}
    results: Chunked[Result] = msgspec.field(default_factory=Chunked)
    failures: Chunked[dict[str, Any]] = msgspec.field(default_factory=Chunked)
    recent: tuple[tuple[int, int], ...] = ()
    stopped: bool = False
    clashes: tuple[int, ...] = ()
    patches: tuple[ev.Patch, ...] = ()
    patched_bytes: int = 0
    written: frozenset[str] = frozenset()
    parallel: bool = False
    at: str = ""
    taken: ev.Taken | None = None
    held: Epoch = NOBODY
    halted: ev.LoopHalted | None = None
    claims: cursor_rows.Claims | None = None

    @property
    def ended(self) -> int:
        return self.results.size + self.failures.size

    @property
    def is_local(self) -> bool:
        return self.started is not None and self.started.local

    @property
    def total(self) -> int:
        """How many elements there are so far."""
        if self.claims is not None:
            return self.claims.claimed
        return self.started.count if self.started is not None else 0

    @property
    def has_more(self) -> bool:
        """Further elements may come."""
        return self.claims is not None and not self.claims.dry

    @property
    def is_at_work(self) -> bool:
        """According to the log, a worker holds some part of it."""
        if self.is_local:
            return self.held > NOBODY and self.halted is None
        claims = self.claims is not None and self.claims.open and self.claims.epoch > NOBODY
        return claims or any(epoch > NOBODY for epoch in self.live.values())

    def outranks(self, lease: Lease) -> bool:
        """A later lease holds what this one speaks of. Whoever holds a local loop holds its iterations."""
        return is_outranked(lease, self.live.get(lease.index, NOBODY), self.held)


class Schedule(Struct):
    """`stopping`: cancelled loops some of whose iterations may still run. `orphans`: children that nobody waits for
    now, and why. `signals`: those that no wait has consumed, by source. `gate`: the limit of the execution itself;
    `granted`: the places that it and its runs hold, with their keys. `taken`: what loops yet to be scheduled take over
    from an earlier execution, by token. `counts`: how many runs each step has had. `root`: the execution that this one
    descends from, if it is a child. `signal_bytes`: of the payloads of `signals`. `excess`: signals that came when as
    many were kept as may be, by source, with their names: they are to be rejected."""

    execution_id: str
    runs: dict[str, Dispatch] = {}
    loops: dict[str, Loop] = {}
    waits: dict[str, Wait] = {}
    stopping: dict[str, Loop] = {}
    orphans: dict[str, str] = {}
    signals: dict[str, ev.SignalReceived] = {}
    heard: tuple[str, ...] = ()
    paused: bool = False
    depth: int = 0
    finished: bool = False
    priority: int = PRIORITY
    gate: ev.Limited | None = None
    began: str = ""
    granted: dict[str, str] = {}
    n: int = 0
    seq: int = 0
    as_of: int = 0
    taken: dict[str, ev.Taken] = {}
    counts: dict[str, int] = {}
    root: str = ""
    signal_bytes: dict[str, int] = {}
    excess: dict[str, str] = {}


def _copy(loop: Loop) -> Loop:
    new = replace(loop)
    new.live, new.sent = loop.live.copy(), loop.sent.copy()
    new.results, new.failures = loop.results.copy(), loop.failures.copy()
    return new


def draft(state: Schedule) -> Schedule:
    """A copy that may be changed."""
    new = replace(state)
    new.runs, new.waits, new.orphans = state.runs.copy(), state.waits.copy(), state.orphans.copy()
    new.signals, new.granted, new.taken = state.signals.copy(), state.granted.copy(), state.taken.copy()
    new.counts, new.signal_bytes, new.excess = state.counts.copy(), state.signal_bytes.copy(), state.excess.copy()
    new.loops = {run_id: _copy(loop) for run_id, loop in state.loops.items()} if state.loops else {}
    new.stopping = {run_id: _copy(loop) for run_id, loop in state.stopping.items()} if state.stopping else {}
    return new


def evolve(state: Schedule, records: list[tuple[int, Record]], fitting: set[int] | None = None) -> Schedule:
    """The state after more records, in log order (one copy for all). What fits is added to `fitting`."""
    new = draft(state)
    for seq, record in records:
        if record.writer == "scheduler":
            if record.n != new.n + 1:
                raise Corrupt(f"{record.execution_id}: scheduler event {record.n} follows {new.n}: the log has a gap")
            for event in record.events:
                apply(new, event)
            _mark(new, record, seq)
            new.n += len(record.events)
            new.seq = seq
            continue
        if record.writer == "router":
            _fold_router(new, record, seq)
        elif record.writer == "control":
            waiting.fold_control(new, record)
            for event in record.events:
                if isinstance(event, ev.LimitGranted):
                    scheduling_limits.fold_granted(new, event)
        elif record.lease is not None and not misfit(seq, record, known(new, record.lease)):
            if record.writer == "waiting":
                waiting.fold_report(new, record, record.lease)
            else:
                _fold_report(new, record, record.lease, seq)
            if fitting is not None:
                fitting.add(seq)
        new.as_of = max(new.as_of, seq)
    return new


def _mark(state: Schedule, record: Record, seq: int) -> None:
    """What only the record knows: the sequence at which its iterations start, and which reports it has decided on."""
    for event in record.events:
        if isinstance(event, ev.IterationStarted) and (loop := loop_of(state, event.run_id)) is not None:
            indexes = (RUN,) if loop.is_local else range(event.first, event.first + event.count)
            loop.sent.update(dict.fromkeys(indexes, seq))
        if isinstance(event, ev.FrameStarted) and (loop := loop_of(state, event.run_id)) is not None:
            loop.sent[FIRST_FRAME] = seq
    for loop in state.loops.values():
        if loop.recent:
            loop.recent = tuple(entry for entry in loop.recent if entry[0] > record.as_of)
        if loop.claims is not None:
            needed = min([loop.next, *loop.live, *(index for _, index in loop.recent)])
            loop.claims = cursor_rows.pruned(loop.claims, needed)


def _fold_router(state: Schedule, record: Record, seq: int) -> None:
    restarts: list[ev.Restart] = []
    for event in record.events:
        match event:  # the frequent ones first
            case ev.NextSelected(run_id=run_id):
                end_run(state, run_id)
            case ev.StepScheduled(run_id=run_id, pool=pool):
                state.counts[event.step] = state.counts.get(event.step, 0) + 1
                if not pool:
                    continue
                if event.loop:
                    state.loops[run_id] = Loop(event, seq, at=record.ts, taken=_taken(state, event))
                else:
                    state.runs[run_id] = Dispatch(event, seq, record.ts)
            case ev.TokenCreated(token_id=token_id):
                if restarts and (taken := restarts.pop(0).loop) is not None:
                    state.taken[token_id] = taken
            case ev.PlaybookStarted(priority=priority, limit=limit):
                state.priority, state.gate, state.began = priority, limit, record.ts
            case ev.ExecutionRequested(parent=parent):
                if parent is not None:
                    state.depth, state.root = parent.depth, parent.root or parent.execution_id
            case ev.RequestEvaluated() | ev.WorkflowStarted() | ev.WorkflowFinished():
                continue
            case ev.StepCancelled(run_id=run_id, reason=reason):
                if run_id in state.loops:
                    state.stopping[run_id] = state.loops[run_id]
                waiting.orphan(state, run_id, reason)
                end_run(state, run_id)
            case ev.PlaybookRestored(tokens=tokens):
                restarts = list(tokens)
            case ev.PlaybookPaused() | ev.PlaybookResumed() | ev.PlaybookCompensating():
                state.paused = isinstance(event, ev.PlaybookPaused)
            case ev.PlaybookProcessed():
                state.finished, state.granted = True, {}
                state.runs, state.loops, state.waits, state.stopping = {}, {}, {}, {}


def _taken(state: Schedule, event: ev.StepScheduled) -> ev.Taken | None:
    """A run that several tokens entered together is a new one, whatever each of them carried."""
    found = [state.taken.pop(token_id) for token_id in event.tokens if token_id in state.taken]
    return found[0] if len(event.tokens) == len(found) == 1 else None


def end_run(state: Schedule, run_id: str) -> None:
    state.runs.pop(run_id, None)
    state.loops.pop(run_id, None)
    if state.waits:
        waiting.forget(state, run_id)
    if state.granted:
        scheduling_limits.forget(state, run_id)


def loop_of(state: Schedule, run_id: str) -> Loop | None:
    """Also one that was cancelled. A scheduler that had not heard of the cancel may have written behind it that the
    loop starts: what a worker does by that is work that the cancel waits for, whoever folds the log, in its order."""
    return state.loops.get(run_id) or state.stopping.get(run_id)


def known(state: Schedule, lease: Lease) -> Known | None:
    """What is known of the run of a lease; None when it is over, or never was."""
    if (dispatch := state.runs.get(lease.run_id)) is not None:
        return Known(dispatch.event.step, dispatch.event.pool, since=dispatch.cause)
    loop = loop_of(state, lease.run_id)
    if loop is None:
        return None
    index, claims, local = lease.index, loop.claims, loop.is_local
    asked, size = (claims.asked, claims.size) if claims is not None else (0, 0)
    part = RUN if local else index
    if is_frame(index):
        part = FIRST_FRAME if frame_of(index) == asked - 1 else RUN
    begun = loop.total if local and loop.stopped else loop.next
    since = max(loop.cause, loop.sent.get(part, 0))
    return Known(loop.event.step, loop.event.pool, True, since, local, begun, asked, size)


def unfit(state: Schedule, record: Record, seq: int) -> str:
    """Why a record of a lease does not fit; empty if it does, or is only late: its run is over."""
    if record.lease is None:
        return ""
    found = known(state, record.lease)
    if found is None and was_scheduled(state.counts, record.lease.run_id):
        return ""
    return misfit(seq, record, found)


def _fold_report(state: Schedule, record: Record, lease: Lease, seq: int) -> None:
    loop, index = loop_of(state, lease.run_id), lease.index
    if loop is None or loop.outranks(lease):
        return
    if not is_iteration(index):
        _fold_part(loop, record, lease)
        return
    local = loop.is_local
    if local and index < loop.next and not _has_ended(loop, index):
        loop.live.setdefault(index, NOBODY)
    if index not in loop.live:
        return
    match record.events[-1]:
        case ev.IterationDone(result=result, ctx=ctx):
            settle(loop, index, ctx, result, None)
        case ev.IterationFailed(error=error, ctx=ctx):
            settle(loop, index, ctx, Result(), error)
        case _:
            loop.live[index] = lease.epoch
            return
    if not local and (loop.next < loop.total or loop.has_more):
        loop.recent = (*loop.recent, (seq, index))
    if state.waits or state.granted:
        at = waiting.run_key(lease.run_id, index)
        state.waits.pop(at, None)
        state.granted.pop(at, None)


def _fold_part(loop: Loop, record: Record, lease: Lease) -> None:
    """A report of the worker that runs a local loop, or that claims rows."""
    if is_run(lease.index):
        loop.held = lease.epoch
        if isinstance(last := record.events[-1], ev.LoopHalted):
            loop.halted = last
    elif loop.claims is not None:
        loop.claims = cursor_rows.fold(loop.claims, record, lease)


def _has_ended(loop: Loop, index: int) -> bool:
    return loop.results.get(index) is not None or loop.failures.get(index) is not None


def settle(
    loop: Loop, index: int, ctx: tuple[ev.Patch, ...], result: Result, error: dict[str, Any] | None
) -> None:
    """An iteration has ended; in place, on a draft."""
    loop.live.pop(index, None)
    loop.sent.pop(index, None)
    keys = frozenset().union(*(plain_keys(patch) for patch in ctx)) if ctx else frozenset()
    if keys and loop.parallel and (clash := keys & loop.written):
        message = f"another iteration already wrote ctx.{min(clash)}; use a reducer such as $append"
        loop.failures.put(index, Failure(CTX_CONFLICT, message, retryable=False).error())
        loop.clashes = (*loop.clashes, index)
        return
    if ctx:
        loop.written |= keys
        loop.patches += ctx
        loop.patched_bytes += len(msgspec.json.encode(ctx))
        if (kept := lasting(loop.patches, loop.patched_bytes)) is not loop.patches:
            loop.patches, loop.patched_bytes = kept, len(msgspec.json.encode(kept))
    if error is None:
        loop.results.put(index, result)
    else:
        whole = loop.failures.size < MAX_FAILURES_KEPT
        loop.failures.put(index, error if whole else shortened(error, MAX_FAILURE_TEXT))


def apply(state: Schedule, event: ev.Event) -> None:
    """One of the scheduler's own events, in place (on a draft)."""
    match event:
        case ev.LoopStarted(run_id=run_id) if (loop := loop_of(state, run_id)) is not None:
            begin(loop, event)
        case ev.IterationStarted(run_id=run_id, first=first, count=count) if (
            loop := loop_of(state, run_id)
        ) is not None:
            if not loop.is_local:
                loop.live.update(dict.fromkeys(range(first, first + count), NOBODY))
            loop.next = first + count
        case ev.FrameStarted(run_id=run_id) if (loop := loop_of(state, run_id)) is not None:
            if loop.claims is not None:
                loop.claims = cursor_rows.asked(loop.claims, event)
        case ev.IterationFailed(run_id=run_id, index=index) if (loop := loop_of(state, run_id)) is not None:
            loop.clashes = tuple(clash for clash in loop.clashes if clash != index)
        case ev.StepFailed(run_id=run_id, error=error):
            waiting.orphan(state, run_id, message_of(error, "the step failed"))
            end_run(state, run_id)
        case ev.LoopStopped(run_id=run_id) if (loop := loop_of(state, run_id)) is not None:
            loop.stopped, loop.next = True, event.next if event.next >= 0 else loop.next
        case ev.LoopDone(run_id=run_id):
            end_run(state, run_id)
        case ev.StepCancelled(run_id=run_id):
            state.stopping.pop(run_id, None)
        case ev.TaskResumed():
            waiting.resumed(state, event)
        case ev.SignalRejected(source=source):
            signals.forget(state, source)


def begin(loop: Loop, event: ev.LoopStarted) -> None:
    """In place, on a draft."""
    loop.started, loop.parallel, loop.taken = event, event.parallel, None
    loop.claims = cursor_rows.begun(event)
    if event.taken is not None and event.taken.ctx:
        loop.patches = event.taken.ctx
        loop.patched_bytes = len(msgspec.json.encode(loop.patches))
        loop.written = frozenset().union(*(plain_keys(patch) for patch in loop.patches))
