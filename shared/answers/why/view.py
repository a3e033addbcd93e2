"""An execution as `why` sees it: the states that its router and its scheduler have, by their own folds, and what the
log says beside them: who holds which run, when people asked for what, which tokens were refused."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from shared.answers.history.failures import Failures
from shared.answers.rerun.rerun import is_stop
from shared.answers.why.dead_ends import DeadEnd, dead_ends, is_dead_end
from shared.answers.why.facts import RunKey
from shared.answers.why.tokens import Denial, denials
from shared.dsl.model.plan import Plan, Step
from shared.engine.leases.fence import Fence
from shared.engine.leases.lost_leases import Leases, Lost
from shared.engine.routing import state as execution
from shared.engine.routing.state import Execution
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.state import Schedule
from shared.engine.values.stored_values import Values
from shared.errors import Corrupt, TemplateError
from shared.events import model as ev
from shared.events.classes import ENDS_WORK
from shared.events.readers import FOLDED, INPUTS
from shared.events.record import Epoch, Lease, Record

Entry = tuple[int, Record]
Plans = Callable[[str], Plan]
NO_VALUES: Values = {}
# What folds meet in a history that no service can have written.
UNFIT = (TemplateError, LookupError, AssertionError, ValueError, TypeError, AttributeError)


class Hold(Struct):
    """The latest lease of a run or iteration. `since` is its first record, `last` its latest; `holds` counts the
    leases there were; `retried` is the attempt that ended last, if another one follows; `lost` are the leases before
    it that were lost in a row, with no task finished since."""

    step: str
    worker: str
    epoch: Epoch
    since: str
    last: str
    began: str
    holds: int = 1
    state: Literal["held", "waits", "released", "ended"] = "held"
    task: str = ""
    attempt: int = 0
    task_since: str = ""
    retried: ev.TaskRetried | None = None
    lost: tuple[Lost, ...] = ()


class View(Struct):
    """`times` are when things were said: `paused`, `cancelling`, `compensating`, `ended`; those of runs and tokens
    are under their ids. `heard` is the last record, with its time, that each control service reads from others.
    `stopped`: a run ended so that nothing follows it. `failures` are the calls that runs failed with, `tolerated` the
    loops that were done with iterations that failed, and when."""

    execution_id: str
    state: Execution
    schedule: Schedule
    plan: Plan | None = None
    path: str = ""
    by: str = ""
    started: str = ""
    last: int = 0
    request_error: dict[str, Any] | None = None
    holds: dict[RunKey, Hold] = {}
    denials: list[Denial] = []
    dead_ends: dict[str, DeadEnd] = {}
    entered: set[str] = set()
    times: dict[str, str] = {}
    pause: ev.PlaybookPaused | None = None
    cancelling: ev.PlaybookCancelling | None = None
    refused_signals: list[ev.SignalRejected] = []
    tolerated: list[tuple[str, ev.LoopDone]] = []
    heard: dict[str, tuple[int, str]] = {}
    leases: dict[RunKey, Leases] = {}
    stopped: bool = False
    failures: Failures = field(default_factory=Failures)

    def step(self, name: str) -> Step | None:
        return self.plan.steps.get(name) if self.plan is not None else None

    def attempts(self, step: str, task: str) -> int:
        """How often the task is tried at most."""
        found = self.step(step)
        rules = [rule for each in (found.tasks if found is not None else ()) if each.name == task
                 for rule in each.rules or ()]
        return max([1, *(rule.then.attempts for rule in rules if rule.then.do == "retry")])


class BrokenHistory(Corrupt):
    """The log cannot be folded from the record `seq` on."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(reason)
        self.seq, self.reason = seq, reason


def viewed(execution_id: str, entries: Sequence[Entry], plans: Plans | None, values: Values = NO_VALUES) -> View:
    """Raises BrokenHistory; and what `plans` and missing values raise. Without plans, what the log alone says."""
    view = View(execution_id, Execution(execution_id), Schedule(execution_id), holds={}, denials=[], dead_ends={},
                entered=set(), times={}, refused_signals=[], tolerated=[], heard={}, leases={})
    fence = Fence()
    for seq, record in entries:
        try:
            _fold(view, seq, record, plans, values)
            if fence.takes(record) and record.lease is not None:
                _held(view, record, record.lease)
        except Corrupt as error:
            raise BrokenHistory(seq, str(error)) from None
        except UNFIT as error:
            raise BrokenHistory(seq, f"{type(error).__name__} {error}") from None
    view.schedule = _scheduled(execution_id, entries)
    return view


def _scheduled(execution_id: str, entries: Sequence[Entry]) -> Schedule:
    read = [entry for entry in entries if entry[1].writer in FOLDED["scheduler"]]
    try:
        return schedule.evolve(Schedule(execution_id), read)
    except (Corrupt, *UNFIT) as error:
        raise BrokenHistory(_gap(execution_id, read), str(error)) from None


def _gap(execution_id: str, read: Sequence[Entry]) -> int:
    """The record that does not follow."""
    state = Schedule(execution_id)
    for entry in read:
        try:
            state = schedule.evolve(state, [entry])
        except (Corrupt, *UNFIT):
            return entry[0]
    return read[-1][0]


def _fold(view: View, seq: int, record: Record, plans: Plans | None, values: Values) -> None:
    view.last = seq
    if record.writer == "router":
        for event in record.events:
            _said(view, event, record.ts, plans)
            view.stopped = view.stopped or is_stop(event)
        if view.plan is not None and any(isinstance(event, ev.TokenRejected) for event in record.events):
            view.denials += denials(view.plan, view.state, record, values)
        if view.plan is not None and any(is_dead_end(event) for event in record.events):
            view.dead_ends |= {end.step: end for end in dead_ends(view.plan, view.state, record, values)}
    for event in record.events:
        if isinstance(event, ev.SignalRejected):
            view.refused_signals.append(event)
        elif isinstance(event, ev.LoopDone) and event.failed:
            view.tolerated.append((record.ts, event))
    if record.writer in FOLDED["router"]:
        view.state = execution.evolve(view.state, record, seq)
    for decider, inputs in INPUTS.items():
        if record.writer in inputs:
            view.heard[decider] = (seq, record.ts)


def _said(view: View, event: ev.Event, ts: str, plans: Plans | None) -> None:
    match event:
        case ev.ExecutionRequested(path=path, by=by, parent=parent):
            view.path, view.started = path, ts
            view.by = f"execution {parent.execution_id}" if parent is not None else by
        case ev.RequestEvaluated(digest=digest, error=error):
            view.plan, view.request_error = plans(digest) if digest and plans is not None else None, error
        case ev.StepScheduled(step=step, run_id=run_id):
            view.entered.add(step)
            view.times[run_id] = ts
        case ev.PlaybookPaused():
            view.pause, view.times["paused"] = event, ts
        case ev.PlaybookCancelling():
            view.cancelling, view.times["cancelling"] = event, ts
        case ev.PlaybookCompensating():
            view.times["compensating"] = ts
        case ev.PlaybookProcessed():
            view.times["ended"] = ts
        case ev.TokenCreated(token_id=token_id):
            view.times[token_id] = ts


def _held(view: View, record: Record, lease: Lease) -> None:
    """Of a record that counts. Nothing is closed: a worker of a run that was cancelled has it until it lets go."""
    key = lease.run_id, lease.index
    hold = view.holds.get(key)
    if hold is None or lease.epoch != hold.epoch:
        began, holds = (hold.began, hold.holds + 1) if hold is not None else (record.ts, 1)
        retried = hold.retried if hold is not None else None
        hold = Hold(lease.step, lease.worker, lease.epoch, record.ts, record.ts, began, holds, retried=retried)
        view.holds[key] = hold
    hold.last = record.ts
    view.failures.take(record)
    leases = view.leases.setdefault(key, Leases())
    leases.take(record)
    hold.lost = leases.lost
    for event in record.events:
        _advanced(hold, event, record.ts)


def _advanced(hold: Hold, event: ev.Event, ts: str) -> None:
    match event:
        case ev.TaskStarted(task=task, attempt=attempt):
            hold.task, hold.attempt, hold.task_since = task, attempt, ts
        case ev.TaskRetried():
            hold.retried, hold.task, hold.attempt, hold.task_since = event, event.task, event.attempt, ts
        case ev.TaskDone(task=task, attempt=attempt):
            hold.retried, hold.task, hold.attempt, hold.task_since = None, task, attempt, ts
        case ev.TaskWaiting(task=task, attempt=attempt):
            hold.state, hold.task, hold.attempt, hold.task_since = "waits", task, attempt, ts
        case ev.LeaseReleased():
            hold.state = "released"
        case _ if isinstance(event, ENDS_WORK):
            hold.state = "ended"
