"""A recorded execution as a replay needs it: what was asked for, the outcomes of its calls and when, and in which order
its deciders read."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from shared.answers.history.history import History, Key
from shared.answers.rehearsal.types import Entry, Wish
from shared.answers.verify.pipelines import CUT_SHORT
from shared.dsl.model.plan import Plan, Task
from shared.engine.values.time_limits import OVER
from shared.events import model as ev
from shared.events.failure import CANCELLED, LIMIT, TEMPLATE, kind_of, message_of
from shared.events.record import Writer
from shared.events.run_index import is_iteration
from shared.events.stamp import seconds

TICK_S = 1e-6
LATE = (OVER, "the step-run is over its time", "no worker holds a run for more than ")
Call = tuple[str, int, str, int, int]  # run, iteration, task, attempt, element


class Fact(Struct, frozen=True):
    """The end of a call, and the virtual time of its record."""

    event: ev.TaskDone | ev.TaskRetried
    at: float


class Turn(Struct, frozen=True):
    """A decision: when it came into the log, and the time of the last record that its decider had read."""

    at: float
    read: float


class Recording:
    """`request` and `restored` begin it, `facts` are its calls' ends by call, `turns` its decisions by writer, `ends`
    how its workers ended its runs, `wishes` what came from outside. The virtual time of a record is its own, made to
    grow with the log."""

    def __init__(self, execution_id: str, entries: Sequence[Entry], plan: Plan | None) -> None:
        self.execution_id, self.plan = execution_id, plan
        self.history = History(execution_id, entries)
        self.entries = self.history.entries
        self.times = _times(self.entries)
        self.start = self.times[self.entries[0][0]] if self.entries else 0.0
        self.request: ev.ExecutionRequested | None = None
        self.restored: ev.PlaybookRestored | None = None
        self.facts: dict[Call, deque[Fact]] = {}
        self.ends: dict[Key, tuple[float, ev.Event]] = {}
        self.turns: dict[Writer, list[Turn]] = {"router": [], "scheduler": []}
        self.wishes: list[Wish] = []
        self._read_control()
        self._read_runs()

    def _read_control(self) -> None:
        for seq, record in self.entries:
            at = self.times[seq]
            if record.writer in self.turns and not all(_ends_wait(event) for event in record.events):
                self.turns[record.writer].append(Turn(at, self.times.get(record.as_of, 0.0)))
            for event in record.events:
                match event:
                    case ev.ExecutionRequested():
                        self.request = event
                    case ev.PlaybookRestored():
                        self.restored = event
                    case ev.CancelRequested() | ev.PauseRequested() | ev.ResumeRequested():
                        self.wishes.append(Wish(event, at - self.start, record.source))

    def _read_runs(self) -> None:
        for key, held in self.history.held.items():
            at: dict[str, int] = {}
            for seq, record in held.kept:
                for event in record.events:
                    if isinstance(event, ev.TaskDone | ev.TaskRetried):
                        self._fact(key, event, self.times[seq], at)
            if held.terminal is not None:
                self.ends[key] = self.times[held.end], held.terminal

    def _fact(self, key: Key, event: ev.TaskDone | ev.TaskRetried, time: float, at: dict[str, int]) -> None:
        """`at` is the current element of each task's loop: a retry does not name its own."""
        task = event.task
        element = at.get(task, 0) if self._loops(key, task) else -1
        if isinstance(event, ev.TaskDone):
            element = event.element
            more = event.do == "continue" and event.element + 1 < event.of
            at[task] = event.element + 1 if more else 0
        call = (key.run_id, key.index, task, event.attempt, element)
        self.facts.setdefault(call, deque()).append(Fact(event, time))

    def _loops(self, key: Key, task: str) -> bool:
        found = self.task(key.run_id, task)
        return found is not None and found.loop is not None

    def task(self, run_id: str, task: str) -> Task | None:
        """The task as it was when the execution was recorded."""
        step = self.plan.steps.get(run_id.rpartition(":")[0]) if self.plan is not None else None
        return next((each for each in step.tasks if each.name == task), None) if step is not None else None

    def broke(self, key: Key) -> tuple[float, dict[str, Any]] | None:
        """When and how a worker's own fault ended the run."""
        at, end = self.ends.get(key, (0.0, None))
        if isinstance(end, ev.StepFailed | ev.IterationFailed) and kind_of(end.error) in CUT_SHORT:
            return None if kind_of(end.error) == CANCELLED else (at, end.error)
        return None

    def stopped(self, run_id: str) -> float | None:
        """When the first of a run's workers said that it was told to stop."""
        times = [
            at for key, (at, end) in self.ends.items()
            if key.run_id == run_id and _was_told(end)
        ]
        return min(times, default=None)

    def was_cut(self, key: Key) -> bool:
        """No worker ended the run: a call of it never came back. What an unfinished execution has yet to begin
        is as good as begun."""
        if key.run_id not in self.history.scheduled:
            return not self.history.over
        _, end = self.ends.get(key, (0.0, None))
        return end is None or _was_told(end)


def _was_told(end: ev.Event) -> bool:
    """A worker's last event, because it was told to stop."""
    if isinstance(end, ev.LoopHalted):
        return not is_iteration(end.index) and end.error is None
    return kind_of(getattr(end, "error", None)) == CANCELLED


def digest_of(entries: Sequence[Entry]) -> str:
    """Of the playbook that the execution runs; empty when its request was refused."""
    found = [event for _, record in entries[:1] for event in record.events if isinstance(event, ev.RequestEvaluated)]
    return found[0].digest if found else ""


def _times(entries: Sequence[Entry]) -> dict[int, float]:
    times: dict[int, float] = {}
    last = 0.0
    for seq, record in entries:
        last = max(seconds(record.ts), last + TICK_S)
        times[seq] = last
    return times


def _ends_wait(event: ev.Event) -> bool:
    """A replay knows how a wait ended, so it does not wait."""
    return isinstance(event, ev.SignalRejected) or (
        isinstance(event, ev.TaskResumed) and event.outcome is not None)


def is_opaque(task: Task | None, event: ev.TaskDone | ev.TaskRetried) -> bool:
    """The log has the outcome as a rule or the worker changed it: the decision does not follow from it again."""
    if isinstance(event, ev.TaskRetried):
        return False
    error = event.outcome.error or {}
    if message_of(error).startswith(LATE) or kind_of(error) == LIMIT:
        return True
    if kind_of(error) in (TEMPLATE, LIMIT) and message_of(error).startswith("policy of task "):
        return True
    rules = task.rules if task is not None and task.rules is not None else ()
    return any(rule.then.result or rule.then.error for rule in rules)

