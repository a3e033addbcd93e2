"""What people see of an execution: its status, ctx, result and steps, folded from all its records."""

from contextlib import suppress
from typing import Any

from msgspec import Struct

from shared.answers.history.failures import Failures
from shared.engine.leases.fence import Fence
from shared.engine.values.ctx_patch import apply_patch
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.classes import ENDS_RUN
from shared.events.outcome import Result
from shared.events.record import Record
from shared.events.run_index import is_iteration, is_run


class LoopProgress(Struct):
    total: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0


class StepSummary(Struct):
    """`status` is that of the step's latest run."""

    name: str
    runs: int = 0
    status: str = "scheduled"
    task: str = ""
    attempt: int = 0
    worker: str = ""
    wait: str = ""
    started: str = ""
    ended: str = ""
    loop: LoopProgress | None = None


class Summary:
    """Apply records in log order; read the fields at any time."""

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id
        self.path = ""
        self.digest = ""
        self.status = "pending"
        self.result: Result | None = None
        self.error: dict[str, Any] | None = None
        self.ctx: dict[str, Any] = {}
        self.workload: dict[str, Any] = {}
        self.steps: dict[str, StepSummary] = {}
        self.children: dict[str, str] = {}  # execution → the step that started it
        self.started = ""
        self.ended = ""
        self.failures = Failures()
        self._fence = Fence()
        self._runs: dict[str, str] = {}

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def apply(self, record: Record) -> None:
        if not self._fence.takes(record):
            return
        self.failures.take(record)
        for event in record.events:
            if record.lease is None:
                self._control(event, record.ts)
                if isinstance(event, ENDS_RUN):
                    self._fence.close(event.run_id)
            else:
                self._report(event, record)

    def as_dict(self) -> dict[str, Any]:
        steps = {step.name: {"runs": step.runs, "status": step.status} for step in self.steps.values()}
        return {
            "execution_id": self.execution_id,
            "status": self.status,
            "result": plain(self.result),
            "ctx": self.ctx,
            "error": self.error,
            "steps": steps,
        }

    def _control(self, event: ev.Event, ts: str) -> None:
        match event:
            case ev.ExecutionRequested(path=path):
                self.path, self.started = path, ts
            case ev.RequestEvaluated(digest=digest):
                self.digest = digest
            case ev.PlaybookStarted(workload=workload):
                self.status, self.workload = "running", workload
            case ev.PlaybookRestored(ctx=ctx):
                self.ctx = ctx
            case ev.StepScheduled(run_id=run_id, step=name):
                step = self.steps.setdefault(name, StepSummary(name))
                step.runs += 1
                step.status, step.started, step.ended = "scheduled", ts, ""
                step.loop = LoopProgress() if event.loop else None
                self._runs[run_id] = name
            case ev.CtxPatched(patch=patch):
                with suppress(TemplateError):  # no router writes one that does not fit
                    self.ctx = apply_patch(self.ctx, patch)
            case ev.NextSelected(step=name, event=boundary):
                self._end(name, "failed" if boundary == "step.failed" else "done", ts)
            case ev.StepCancelled(step=name):
                self._end(name, "cancelled", ts)
            case ev.PlaybookPaused() | ev.PlaybookCancelling():
                self.status = "paused" if isinstance(event, ev.PlaybookPaused) else "cancelling"
            case ev.PlaybookResumed():
                self.status = "running"
            case ev.PlaybookCompensating():
                self.status = "compensating"
            case ev.PlaybookProcessed(status=status, result=result, error=error):
                self.status, self.result, self.error, self.ended = status, result, error, ts
            case ev.LoopStarted(step=name, count=count) if name in self.steps:
                self.steps[name].status = "running"
                done = event.taken.done if event.taken is not None else 0
                self.steps[name].loop = LoopProgress(total=count, done=done)
            case ev.IterationStarted(run_id=run_id, first=first, count=count):
                if (loop := self._loop(run_id)) is not None:
                    loop.started += count
                    loop.total = max(loop.total, first + count)  # of a cursor, nobody knows before
            case ev.TaskResumed(run_id=run_id, index=index) if not is_iteration(index) and run_id in self._runs:
                self.steps[self._runs[run_id]].status = "running"

    def _end(self, name: str, status: str, ts: str) -> None:
        step = self.steps.get(name)
        if step is not None:
            step.status, step.ended, step.task = status, ts, ""

    def _loop(self, run_id: str) -> LoopProgress | None:
        name = self._runs.get(run_id)
        return self.steps[name].loop if name else None

    def _report(self, event: ev.Event, record: Record) -> None:
        lease = record.lease
        assert lease is not None
        step = self.steps.get(self._runs.get(lease.run_id, ""))
        if step is None:
            return
        step.worker = lease.worker
        if step.status == "scheduled":
            step.status = "running"
        if isinstance(event, ev.TaskWaiting) and event.child is not None:
            self.children[event.child.execution_id] = step.name
        match event:
            case ev.TaskWaiting() if is_run(lease.index):
                step.status, step.task, step.wait = "waiting", event.task, awaited(event)
            case ev.LeaseReleased() if is_run(lease.index) and step.loop is None:
                step.status, step.worker, step.task = "scheduled", "", ""
            case ev.TaskStarted(task=task, attempt=attempt) | ev.TaskDone(task=task, attempt=attempt):
                step.task, step.attempt = task, attempt
            case ev.IterationDone() | ev.IterationFailed() if step.loop is not None:
                step.loop.done += isinstance(event, ev.IterationDone)
                step.loop.failed += isinstance(event, ev.IterationFailed)


def awaited(event: ev.TaskWaiting) -> str:
    """What a task waits for, in words."""
    if event.signal:
        return f"for signal {event.signal}" + (f" until {event.until}" if event.until else "")
    if event.child is None:
        return f"until {event.until}"
    return f"for playbook {event.child.path}, execution {event.child.execution_id}"


def plain(result: Result | None) -> Any:
    """The value, or where it lies."""
    if result is None:
        return None
    if result.ref is not None:
        ref = result.ref
        return {"store": ref.store, "key": ref.key, "checksum": ref.checksum, "size": ref.size,
                "schema_hint": ref.schema_hint}
    return loop_results(result) if result.shape == "loop" else result.value


def loop_results(result: Result) -> Any:
    """Of a loop the results alone; whatever a worker calls one is as it is."""
    value = result.value
    return value["results"] if isinstance(value, dict) and "results" in value else value
