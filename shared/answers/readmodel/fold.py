"""One more record, folded into the rows. Pure.

1. A record at or before the execution's `seq` has been folded: it changes nothing.
2. Which of a worker's records count says the fence (`engine/leases/fence.py`), and that their run is live. So zombies,
   repeats and late reports stay in `record` and change no other row.
3. A higher epoch takes the run over; a task that the last holder left open is lost.
4. The control plane has the last word: the router's `next.selected` and the scheduler's verdict on
   an iteration also override what a worker had reported.
5. An event may be recorded twice, and is one event: the view `event` shows the first. It looks for others only in
   executions that are `repeated`: those with a record of which it is not certain that its events are new. Certain is
   what counts by rule 2, since numbers of a lease only grow there, a router's or a scheduler's record behind its last
   number, and the first record from outside.
"""

from datetime import datetime
from typing import Any

from shared.answers.readmodel.entry import Entry
from shared.answers.readmodel.rows import (
    TERMINAL,
    Ctx,
    Ending,
    Execution,
    Loop,
    Rows,
    Run,
    TaskRun,
    json_text,
    set_result,
)
from shared.dsl.model.edition import source_of
from shared.engine.leases.fence import counts, is_outranked, last_number
from shared.engine.leases.lease_fit import Known, misfit
from shared.engine.values.ctx_patch import apply_patch
from shared.errors import Corrupt, TemplateError
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import Lease, Record, trace_id
from shared.events.run_index import RUN, is_frame, is_iteration, iteration_part

_LIVE_STATUS: dict[type[ev.Event], str] = {
    ev.PlaybookPaused: "paused", ev.PlaybookResumed: "running", ev.PlaybookCancelling: "cancelling",
    ev.PlaybookCompensating: "compensating",
}
LIVE = frozenset(_LIVE_STATUS.values())


def fold(rows: Rows, entry: Entry) -> None:
    record = entry.record
    execution = rows.executions.get(record.execution_id)
    if execution is None:
        trace = trace_id(record.execution_id)
        execution = Execution(record.execution_id, entry.partition, entry.at, entry.at, trace_id=trace)
        rows.executions[record.execution_id] = execution
    if entry.seq <= execution.seq:
        return
    execution.seq, execution.updated_at = entry.seq, entry.at
    rows.records.append(entry)
    if record.lease is not None:
        is_new = _report(rows, entry, record.lease)
    else:
        is_new = _number(execution, record)
        for event in record.events:
            _decision(rows, entry, execution, event)
    if not is_new:
        rows.repeated.add(record.execution_id)


def _number(execution: Execution, record: Record) -> bool:
    """Whether it is certain that no record before this one has an event of it."""
    if record.writer == "control":
        execution.controls += 1
        return execution.controls == 1 and len(record.events) == 1
    last = last_number(record)
    if record.writer == "router":
        is_new = record.n > execution.router_n
        execution.router_n = max(execution.router_n, last)
    else:
        is_new = record.n > execution.scheduler_n
        execution.scheduler_n = max(execution.scheduler_n, last)
    return is_new and not record.source


def _known(rows: Rows, eid: str, lease: Lease) -> Known | None:
    run, loop = rows.runs.get((eid, lease.run_id, RUN)), rows.loops.get((eid, lease.run_id))
    if run is None:
        return None
    if loop is None:
        return Known(run.step, run.pool)
    return Known(run.step, run.pool, True, 0, loop.local, loop.begun)


# --- what a worker reports ----------------------------------------------------------------


def _report(rows: Rows, entry: Entry, lease: Lease) -> bool:
    """Whether it counts."""
    record = entry.record
    if is_frame(lease.index):
        return False  # the claim of rows for a loop is no run
    if misfit(0, record, _known(rows, record.execution_id, lease)):
        return False
    whole = rows.runs.get((record.execution_id, lease.run_id, RUN))
    if whole is not None and is_outranked(lease, whole.epoch):
        return False
    run = _run(rows, record.execution_id, lease.run_id, lease.index)
    if run.status in TERMINAL or not counts(record, run.epoch, run.n):
        return False
    if lease.epoch != run.epoch:
        _claim(rows, run, lease, entry.at)
    run.n = last_number(record)
    for n, event in enumerate(record.events, record.n):
        _fact(rows, entry, run, n, event)
    return True


def _fact(rows: Rows, entry: Entry, run: Run, n: int, event: ev.Event) -> None:
    match event:
        case ev.TaskStarted(task=task, attempt=attempt):
            _lose_task(rows, run, entry.at)
            run.task, run.task_n = task, n
            rows.started_tasks.add((*run.key, run.epoch_ns, run.epoch_try, n))
            _task(rows, run, n, task, attempt).started_at = entry.at
        case ev.TaskDone(task=task, attempt=attempt, outcome=outcome):
            row = _end_task(rows, run, n, task, attempt, entry.at)
            row.status = "done" if outcome.status == "ok" else "failed"
            row.directive, row.target, row.error = event.do, event.to, json_text(outcome.error)
        case ev.TaskRetried(task=task, attempt=attempt, outcome=outcome, delay=delay):
            row = _end_task(rows, run, n, task, attempt, entry.at)
            row.status, row.directive, row.delay_s = "retried", "retry", delay
            row.error = json_text(outcome.error)
        case ev.TaskWaiting(task=task, attempt=attempt):
            if not event.pause:
                _end_task(rows, run, n, task, attempt, entry.at).status = "waited"
            run.status = "waiting"
        case ev.LeaseReleased():
            _lose_task(rows, run, entry.at)
        case ev.StepDone(result=result) | ev.IterationDone(result=result):
            _end(rows, run, "done", entry.at, result=result)
        case ev.StepFailed(error=error) | ev.IterationFailed(error=error):
            _end(rows, run, "failed", entry.at, error=error)


def _claim(rows: Rows, run: Run, lease: Lease, at: datetime) -> None:
    _lose_task(rows, run, at)
    run.epoch_ns, run.epoch_try = lease.epoch
    run.step, run.worker, run.status = lease.step, lease.worker, "running"
    run.claims += 1
    run.started_at = run.started_at or at


def _task(rows: Rows, run: Run, n: int, task: str, attempt: int) -> TaskRun:
    key = (*run.key, run.epoch_ns, run.epoch_try, n)
    if key not in rows.tasks:
        task_run = f"{run.run_id}{iteration_part(run.iteration)}/{task}/{attempt}"
        rows.tasks[key] = TaskRun(*key, task_run, task, attempt)
    return rows.tasks[key]


def _end_task(rows: Rows, run: Run, n: int, task: str, attempt: int, at: datetime) -> TaskRun:
    """The row that the start of this attempt made; a new one when no start was reported."""
    if run.task != task:
        _lose_task(rows, run, at)
    if not run.task_n:
        rows.started_tasks.add((*run.key, run.epoch_ns, run.epoch_try, n))
    row = _task(rows, run, run.task_n or n, task, attempt)
    row.finished_at = at
    run.task, run.task_n = "", 0
    return row


def _lose_task(rows: Rows, run: Run, at: datetime) -> None:
    if run.task_n:
        _end_task(rows, run, run.task_n, run.task, 1, at).status = "lost"


def _end(
    rows: Rows,
    run: Run,
    status: str,
    at: datetime,
    *,
    result: Result | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    """Ends a live run, and counts it when it is an iteration of a live loop."""
    if run.status in TERMINAL:
        return
    _lose_task(rows, run, at)
    run.status, run.finished_at, run.error = status, at, json_text(error)
    set_result(run, result)
    loop = rows.loops.get((run.execution_id, run.run_id)) if is_iteration(run.iteration) else None
    if loop is not None and loop.status == "running":
        _count(loop, status, 1)


def _count(loop: Loop, status: str, by: int) -> None:
    if status == "done":
        loop.done += by
    elif status == "failed":
        loop.failed += by


# --- what the control plane decides -------------------------------------------------------


def _decision(rows: Rows, entry: Entry, execution: Execution, event: ev.Event) -> None:
    eid, at = execution.execution_id, entry.at
    match event:
        case ev.ExecutionRequested(path=path, version=version, parent=parent, labels=labels):
            execution.path, execution.version = path, version
            execution.parent_id = parent.execution_id if parent is not None else None
            execution.labels = json_text(labels or None)
        case ev.RequestEvaluated(digest=digest):
            execution.digest = source_of(digest)
        case ev.PlaybookStarted(workload=workload):
            execution.workload = json_text(workload)
        case ev.PlaybookRestored(of=of, ctx=ctx):
            execution.rerun_of = of
            _patch(rows, entry, ctx)
        case (
            ev.PlaybookPaused() | ev.PlaybookResumed() | ev.PlaybookCancelling() | ev.PlaybookCompensating()
        ) if execution.status in LIVE:
            execution.status = _LIVE_STATUS[type(event)]
        case ev.PlaybookProcessed(status=status, result=result, error=error) if execution.status in LIVE:
            execution.status, execution.finished_at, execution.error = status, at, json_text(error)
            set_result(execution, result)
        case ev.StepScheduled(run_id=run_id):
            run = _run(rows, eid, run_id)
            run.step, run.pool, run.scheduled_at = event.step, event.pool, run.scheduled_at or at
            if event.loop:
                rows.loops.setdefault((eid, run_id), Loop(eid, run_id, event.step, local=False, begun=0))
        case ev.NextSelected(run_id=run_id):
            run = _run(rows, eid, run_id)
            verdict = "failed" if event.event == "step.failed" else "done"
            _end(rows, run, verdict, at)
            run.status, run.step = verdict, event.step
        case ev.CtxPatched(patch=patch):
            _patch(rows, entry, patch)
        case ev.TaskResumed(run_id=run_id, index=index):
            run = _run(rows, eid, run_id, index)
            if run.status == "waiting":
                run.status = "running" if is_iteration(index) else "scheduled"
        case ev.StepCancelled(run_id=run_id):
            _end_loop(rows, eid, run_id, "cancelled", at)
            _end(rows, _run(rows, eid, run_id), "cancelled", at)
        case ev.StepFailed(run_id=run_id, error=error):
            _end_loop(rows, eid, run_id, "failed", at)
            _end(rows, _run(rows, eid, run_id), "failed", at, error=error)
        case _:
            _loop_decision(rows, eid, event, at)


def _loop_decision(rows: Rows, eid: str, event: ev.Event, at: datetime) -> None:
    match event:
        case ev.LoopStarted(run_id=run_id):
            loop = rows.loops.setdefault((eid, run_id), Loop(eid, run_id))
            loop.step, loop.count, loop.max_in_flight = event.step, event.count, event.max_in_flight
            loop.started_at, loop.local = loop.started_at or at, event.local
            loop.done = event.taken.done if event.taken is not None else 0
            run = _run(rows, eid, run_id)
            if run.status == "scheduled":
                run.status, run.started_at = "running", at
        case ev.IterationStarted(run_id=run_id, first=first, count=count):
            loop = rows.loops.setdefault((eid, run_id), Loop(eid, run_id))
            loop.started, loop.begun = loop.started + count, first + count
            loop.count = max(loop.count, first + count)  # of a cursor, nobody knows before
        case ev.IterationFailed(run_id=run_id, index=index, error=error):
            _overrule(rows, _run(rows, eid, run_id, index), error, at)
        case ev.LoopDone(run_id=run_id, result=result):
            loop = rows.loops.setdefault((eid, run_id), Loop(eid, run_id))
            if loop.status == "running":
                loop.status, loop.finished_at = "done", at
                loop.done, loop.failed = event.count - event.failed, event.failed
            _end(rows, _run(rows, eid, run_id), "done", at, result=result)


def _run(rows: Rows, eid: str, run_id: str, index: int = -1) -> Run:
    key = (eid, run_id, index)
    run = rows.runs.get(key)
    if run is None:
        run = rows.runs[key] = Run(eid, run_id, index)
    return run


def _overrule(rows: Rows, run: Run, error: dict[str, Any], at: datetime) -> None:
    """A finished iteration whose ctx writes clash with another's has failed after all."""
    if run.status != "done":
        _end(rows, run, "failed", at, error=error)
        return
    run.status, run.error = "failed", json_text(error)
    loop = rows.loops.get((run.execution_id, run.run_id))
    if loop is not None and loop.status == "running":
        _count(loop, "done", -1)
        _count(loop, "failed", 1)


def _end_loop(rows: Rows, eid: str, run_id: str, status: str, at: datetime) -> None:
    loop = rows.loops.get((eid, run_id))
    if loop is None or loop.status != "running":
        return
    loop.status, loop.finished_at = status, at
    rows.endings.append(Ending(eid, run_id, at))
    for run in rows.runs.values():
        if run.execution_id == eid and run.run_id == run_id and is_iteration(run.iteration):
            _end(rows, run, "cancelled", at)


def _patch(rows: Rows, entry: Entry, patch: ev.Patch) -> None:
    eid = entry.record.execution_id
    known = {key: rows.ctx[eid, key].value for key in patch if (eid, key) in rows.ctx}
    try:
        patched = apply_patch(known, patch)
    except TemplateError as error:  # the router had applied it before it wrote it
        raise Corrupt(f"a ctx patch that does not fit: {error}") from None
    for key in patch:
        rows.ctx[eid, key] = Ctx(eid, key, patched[key], entry.seq)
