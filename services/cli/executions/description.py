"""Everything the log says about an execution, for people: who asked, each run of each step, what waits, who
interfered. Pure: a fold of its records."""

from typing import Any

from msgspec import Struct, to_builtins

from shared.answers.history.summary import LoopProgress, Summary, awaited
from shared.dsl.model.edition import source_of
from shared.events import model as ev
from shared.events.failure import CANCELLED, Failure
from shared.events.record import Epoch, Lease, Record
from shared.events.run_index import RUN, is_iteration, is_run

MAX_FAILURES = 10  # of a loop, listed one by one
MAX_CHILDREN = 1000
MAX_HELD = 20  # leases of a run


class Task(Struct):
    """`attempts` are those of all leases."""

    task: str
    status: str = "running"
    attempts: int = 0
    retried: int = 0
    error: dict[str, Any] | None = None


class Held(Struct):
    """One lease: who had it, from its first word to its last, and how it ended. It is known to be lost once another
    one follows."""

    worker: str
    since: str
    last: str
    ended: str = ""
    pid: int = 0


class Run(Struct):
    """`leases`: how many workers held it, one after the other; `held` are the last of them, without those of
    iterations."""

    run_id: str
    step: str
    status: str = "scheduled"
    scheduled_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    pool: str = ""
    worker: str = ""
    leases: int = 0
    held: list[Held] = []
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
            return  # reported twice, it is the same fact
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
            case ev.NextSelected(run_id=run_id) if run_id in self.runs:
                run = self._over(run_id, "failed" if event.event == "step.failed" else "done", ts)
                run.arcs = event.arcs
            case ev.StepCancelled(run_id=run_id, reason=reason) if run_id in self.runs:
                self._over(run_id, "cancelled", ts).error = Failure(CANCELLED, reason).error()
            case ev.StepFailed(run_id=run_id, error=error) if run_id in self.runs:
                self._over(run_id, "failed", ts).error = error
            case ev.LoopStarted(run_id=run_id, step=step) if run_id in self.runs and step in self.steps:
                run = self.runs[run_id]
                run.status, run.started_at, run.loop = "running", run.started_at or ts, self.steps[step].loop
            case ev.TaskResumed(run_id=run_id) if run_id in self.runs:
                self.runs[run_id].waits = ""
                if self.runs[run_id].status == "waiting":
                    self.runs[run_id].status = "running"
            case ev.ChildEnded(child=child, status=status) if child in self.offspring:
                self.offspring[child].status = status
            case ev.PlaybookProcessed(status=status):
                for run in self.runs.values():
                    _let_go(run, status)
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
        _let_go(run, status)
        return run

    # -- what workers reported

    def _report(self, event: ev.Event, record: Record) -> None:
        super()._report(event, record)
        assert record.lease is not None
        self._held_by(event, record.lease, record.ts)

    def _held_by(self, event: ev.Event, lease: Lease, ts: str) -> None:
        run, key = self.runs.get(lease.run_id), (lease.run_id, lease.index)
        if run is None:
            return
        if lease.epoch != self._held.get(key):
            self._held[key] = lease.epoch
            run.leases += 1
            if is_run(lease.index):
                _taken(run, lease, ts)
        if is_run(lease.index) and run.held:
            run.held[-1].last, run.held[-1].ended = ts, _ended(event)
        elif run.held and lease.epoch == self._held.get((lease.run_id, RUN)):  # an iteration of a local loop
            run.held[-1].last = ts
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
        if not is_iteration(lease.index):
            run.status, run.waits = "waiting", f"{event.task} waits {awaited(event)}"
        child = event.child
        if child is not None and len(self.offspring) < MAX_CHILDREN:
            self.offspring.setdefault(child.execution_id, Child(child.execution_id, child.path, run.run_id))


def _taken(run: Run, lease: Lease, ts: str) -> None:
    if run.held and not run.held[-1].ended:
        run.held[-1].ended = "lost"
    run.held = [*run.held[1 - MAX_HELD :], Held(lease.worker, ts, ts, pid=lease.pid)]


def _let_go(run: Run, status: str) -> None:
    """A lease whose worker wrote no last event ends with its run, or with the execution that left it behind."""
    if run.held and not run.held[-1].ended:
        run.held[-1].ended = status


def _ended(event: ev.Event) -> str:
    match event:
        case ev.LeaseReleased(why=why):
            return f"handed back: {why}"
        case ev.TaskWaiting():
            return "it waits"
        case ev.StepDone():
            return "done"
        case ev.StepFailed() | ev.LoopHalted():
            return "failed"
    return ""


def shown(portrait: Portrait) -> dict[str, Any]:
    """As `describe -o json` prints it, without what has to be looked up."""
    requested = portrait.requested or ev.ExecutionRequested("")
    parent = requested.parent
    return {
        "execution_id": portrait.execution_id, "status": portrait.status, "path": requested.path,
        "version": requested.version, "digest": source_of(portrait.digest), "labels": requested.labels,
        "by": requested.by,
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
