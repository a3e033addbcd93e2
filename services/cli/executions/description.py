"""Everything the log says about an execution, for people: who asked, each run of each step, what waits, who
interfered. Pure: a fold of its records."""

from typing import Any

from msgspec import Struct, to_builtins

from shared.engine.summary import LoopProgress, Summary, awaited
from shared.events import model as ev
from shared.events.record import Epoch, Lease, Record

MAX_FAILURES = 10  # of a loop, told one by one
MAX_CHILDREN = 1000


class Task(Struct):
    """`attempts` are those of all leases."""

    task: str
    status: str = "running"
    attempts: int = 0
    retried: int = 0
    error: dict[str, Any] | None = None


class Run(Struct):
    """`leases`: how many workers held it, one after the other."""

    run_id: str
    step: str
    status: str = "scheduled"
    scheduled_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    pool: str = ""
    worker: str = ""
    leases: int = 0
    tasks: dict[str, Task] = {}
    loop: LoopProgress | None = None
    failures: list[dict[str, Any]] = []
    waits: str = ""
    arcs: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    compensates: str = ""


class Child(Struct):
    execution_id: str
    path: str
    run_id: str
    status: str = "started"


class Asked(Struct, frozen=True):
    """What someone wanted of the execution while it ran."""

    at: str
    what: str
    by: str = ""
    reason: str = ""


class Portrait(Summary):
    """A summary that also remembers each run, each child and each request."""

    def __init__(self, execution_id: str) -> None:
        super().__init__(execution_id)
        self.requested: ev.ExecutionRequested | None = None
        self.restored_from = ""
        self.priority: int | None = None
        self.waits = ""
        self.runs: dict[str, Run] = {}
        self.offspring: dict[str, Child] = {}
        self.asked: list[Asked] = []
        self.records = 0
        self.events = 0
        self._held: dict[tuple[str, int], Epoch] = {}
        self._sources: set[str] = set()

    def apply(self, record: Record) -> None:
        self.records += 1
        self.events += len(record.events)
        if record.source and record.source in self._sources:
            return  # told twice, it is the same fact
        self._sources.add(record.source)
        super().apply(record)

    # -- what was decided, and asked for

    def _control(self, event: ev.Event, ts: str) -> None:
        super()._control(event, ts)
        match event:
            case ev.ExecutionRequested():
                self.requested = event
            case ev.PlaybookStarted(priority=priority, limit=limit):
                self.priority = priority
                self.waits = f"for a place of {limit.key}" if limit is not None else ""
            case ev.PlaybookRestored(of=of):
                self.restored_from = of
            case ev.StepScheduled(run_id=run_id, step=step):
                self.runs[run_id] = Run(run_id, step, scheduled_at=ts, pool=event.pool, compensates=event.compensates,
                                        loop=self.steps[step].loop)
                if event.limited and not event.loop:
                    self.runs[run_id].waits = "waits for a place"
            case ev.LimitGranted(run_id=""):
                self.waits = ""
            case ev.LimitGranted(run_id=run_id) if run_id in self.runs:
                self.runs[run_id].waits = ""
            case ev.NextSelected(run_id=run_id):
                run = self._over(run_id, "failed" if event.event == "step.failed" else "done", ts)
                run.arcs = event.arcs
            case ev.StepCancelled(run_id=run_id, reason=reason):
                self._over(run_id, "cancelled", ts).error = {"kind": "cancelled", "message": reason}
            case ev.StepFailed(run_id=run_id, error=error) if run_id in self.runs:
                self._over(run_id, "failed", ts).error = error
            case ev.LoopStarted(run_id=run_id, step=step):
                run = self.runs[run_id]
                run.status, run.started_at, run.loop = "running", run.started_at or ts, self.steps[step].loop
            case ev.TaskResumed(run_id=run_id) if run_id in self.runs:
                self.runs[run_id].waits = ""
                if self.runs[run_id].status == "waiting":
                    self.runs[run_id].status = "running"
            case ev.ChildEnded(child=child, status=status) if child in self.offspring:
                self.offspring[child].status = status
            case _:
                self._wished(event, ts)

    def _wished(self, event: ev.Event, ts: str) -> None:
        match event:
            case ev.CancelRequested(reason=reason, by=by):
                self.asked.append(Asked(ts, "cancel", by, reason))
            case ev.PauseRequested(reason=reason, by=by):
                self.asked.append(Asked(ts, "pause", by, reason))
            case ev.ResumeRequested(by=by):
                self.asked.append(Asked(ts, "resume", by))
            case ev.SignalReceived(name=name, by=by):
                self.asked.append(Asked(ts, f"signal {name}", by))
            case ev.SignalRejected(name=name, error=error):
                self.asked.append(Asked(ts, f"signal {name} rejected", "", error))

    def _over(self, run_id: str, status: str, ts: str) -> Run:
        run = self.runs[run_id]
        run.status, run.waits, run.finished_at = status, "", run.finished_at or ts
        return run

    # -- what workers reported

    def _report(self, event: ev.Event, record: Record) -> None:
        super()._report(event, record)
        assert record.lease is not None
        self._held_by(event, record.lease, record.ts)

    def _held_by(self, event: ev.Event, lease: Lease, ts: str) -> None:
        run, key = self.runs.get(lease.run_id), (lease.run_id, lease.index)
        held = self._held.get(key, (0, 0))
        if run is None or lease.epoch < held or run.finished_at:
            return
        if lease.epoch > held:
            self._held[key] = lease.epoch
            run.leases += 1
        run.worker, run.started_at = lease.worker, run.started_at or ts
        if run.status == "scheduled":
            run.status = "running"
        match event:
            case ev.TaskDone(task=name, outcome=outcome):
                task = run.tasks.setdefault(name, Task(name))
                task.attempts += 1
                task.status, task.error = "done" if outcome.status == "ok" else "failed", outcome.error
            case ev.TaskRetried(task=name, outcome=outcome):
                task = run.tasks.setdefault(name, Task(name))
                task.attempts, task.retried, task.error = task.attempts + 1, task.retried + 1, outcome.error
            case ev.TaskStarted(task=name):
                run.tasks.setdefault(name, Task(name)).status = "running"
            case ev.TaskWaiting():
                self._waits(run, event, lease)
            case ev.StepFailed(error=error):
                run.error = error
            case ev.IterationFailed(error=error) if len(run.failures) < MAX_FAILURES:
                run.failures.append({"index": lease.index, "error": error})

    def _waits(self, run: Run, event: ev.TaskWaiting, lease: Lease) -> None:
        if lease.index < 0:
            run.status, run.waits = "waiting", f"{event.task} waits {awaited(event)}"
        child = event.child
        if child is not None and len(self.offspring) < MAX_CHILDREN:
            self.offspring.setdefault(child.execution_id, Child(child.execution_id, child.path, run.run_id))


def shown(portrait: Portrait) -> dict[str, Any]:
    """As `describe -o json` prints it, without what has to be looked up."""
    requested = portrait.requested or ev.ExecutionRequested("")
    parent = requested.parent
    return {
        "execution_id": portrait.execution_id, "status": portrait.status, "path": requested.path,
        "version": requested.version, "digest": portrait.digest, "labels": requested.labels, "by": requested.by,
        "priority": portrait.priority, "waits": "" if portrait.over else portrait.waits,
        "request_id": requested.request_id, "requested_at": portrait.started, "finished_at": portrait.ended,
        "parent": {"execution_id": parent.execution_id, "run_id": parent.run_id} if parent is not None else None,
        "rerun_of": portrait.restored_from, "error": portrait.error,
        "runs": [
            {**to_builtins(run), "tasks": to_builtins(list(run.tasks.values()))} for run in portrait.runs.values()
        ],
        "children": to_builtins(list(portrait.offspring.values())), "control": to_builtins(portrait.asked),
        "records": portrait.records, "events": portrait.events,
    }
