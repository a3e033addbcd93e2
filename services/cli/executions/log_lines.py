"""The log of an execution as lines: what happened, and what tasks printed. Pure.

What a task printed is in its outcome, and so is what is known of its failure. A result that lies outside the log is
asked for by raising Missing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from shared.answers.history.failures import evidence
from shared.answers.history.summary import awaited
from shared.engine.values.printed import printed
from shared.engine.values.stored_values import value_of
from shared.events import model as ev
from shared.events.beat import Saying
from shared.events.record import Record

NOT_IN_LOG = 0  # the sequence of a line that is not there
KNOWN = ("detail", "traceback", "body")  # of a failure, beside what was printed


class Line(Struct, frozen=True):
    """`stream` is empty for what happened, else where the task printed the text, or what the text is of a failure (one
    of KNOWN). `iteration` -1: not in a loop."""

    seq: int
    ts: str
    text: str
    stream: str = ""
    step: str = ""
    iteration: int = -1
    task: str = ""
    attempt: int = 0


class Teller:
    """Give it the records in order."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._steps: dict[str, str] = {}
        self._called: set[tuple[str, int]] = set()  # runs and iterations whose task's result is another execution's

    def lines(self, seq: int, record: Record) -> list[Line]:
        found: list[Line] = []
        for event in record.events:
            if isinstance(event, ev.StepScheduled):
                self._steps[event.run_id] = event.step
            found += self._event(seq, record, event)
        return found

    def _event(self, seq: int, record: Record, event: ev.Event) -> Iterator[Line]:
        lease = record.lease
        run_id = lease.run_id if lease is not None else getattr(event, "run_id", "")
        step = getattr(event, "step", "") or self._steps.get(run_id, "")
        index = max(-1, lease.index if lease is not None else getattr(event, "index", -1))
        task, attempt = getattr(event, "task", ""), getattr(event, "attempt", 0)

        def line(text: str, stream: str = "", call: tuple[str, int] = (task, attempt)) -> Line:
            return Line(
                seq=seq, ts=record.ts, text=text, stream=stream, step=step, iteration=index, task=call[0],
                attempt=call[1],
            )

        if isinstance(event, ev.TaskWaiting) and event.child is not None:
            self._called.add((run_id, index))
        elif isinstance(event, ev.TaskDone | ev.TaskRetried) and (run_id, index) in self._called:
            self._called.discard((run_id, index))  # it did not print what the other one did
        elif isinstance(event, ev.TaskDone | ev.TaskRetried):
            outcome = event.outcome
            result = outcome.result if outcome.ref is None else value_of(outcome.ref, self._values)
            for stream, text in printed(outcome, result):
                yield from (line(each, stream) for each in text.splitlines())
            for name, text in evidence(outcome, self._values).items() if outcome.error is not None else ():
                yield from (line(each, name) for each in text.splitlines() if name in KNOWN)
        elif isinstance(event, ev.StepFailed | ev.IterationFailed | ev.LeaseReleased) and event.printed is not None:
            cut = event.printed
            for stream, text in cut.streams.items():
                yield from (line(each, stream, (cut.task, cut.attempt)) for each in text.splitlines())
        if text := said(event):
            yield line(text)


def under_way(says: Iterable[Saying], now: str) -> Iterator[Line]:
    """What calls that run have printed last, as their workers say it: nothing of it is in the log yet."""
    for each in says:
        step, index = each.run_id.rpartition(":")[0], max(-1, each.index)
        for stream, texts in each.streams.items():
            yield from (Line(NOT_IN_LOG, now, text, stream, step, index, each.task, each.attempt) for text in texts)


def said(event: ev.Event) -> str:
    """One event in words; nothing for those that only matter to the engine."""
    match event:
        case ev.ExecutionRequested(path=path, version=version, by=by):
            return f"requested: {path} {version}".rstrip() + (f" by {by}" if by else "")
        case ev.RequestEvaluated(error=error) if error:
            return f"refused: {error.get('message', error)}"
        case ev.PlaybookRestored(of=of):
            return f"goes on from execution {of}"
        case ev.StepScheduled():
            return "scheduled" + (f", undoes {event.compensates}" if event.compensates else "")
        case ev.TaskStarted(attempt=attempt) if attempt > 1:
            return f"attempt {attempt}"
        case ev.TaskDone(outcome=outcome) if outcome.error is not None:
            return f"{_error(outcome.error)}; {event.do}" + (f" {event.to}" if event.to else "")
        case ev.TaskRetried(outcome=outcome, delay=delay):
            return f"{_error(outcome.error)}; tries again" + (f" in {delay:.3g} s" if delay else "")
        case ev.LeaseReleased(why=why):
            return f"handed back: {why}"
        case ev.TaskWaiting():
            return f"waits {awaited(event)}"
        case ev.TokenRejected(step=step):
            return f"not admitted to {step}" + (f": {event.reason}" if event.reason else "")
        case ev.LoopStarted():
            return _loop(event)
        case ev.FrameClaimed(count=count):
            return f"claimed {count} rows" if count else "nothing left to claim"
        case ev.LoopDone(count=count, failed=failed):
            return f"loop done: {count}" + (f", {failed} failed" if failed else "")
        case ev.IterationFailed(error=error) | ev.StepFailed(error=error) | ev.FrameFailed(error=error):
            return f"failed: {_error(error)}"
        case ev.StepDone():
            return "done"
        case ev.StepCancelled(reason=reason):
            return f"cancelled: {reason}"
        case _:
            return _outside(event)


def _loop(event: ev.LoopStarted) -> str:
    text = f"loop of rows, {event.frame} at a time" if event.frame else f"loop of {event.count}"
    text += ", all on one worker" if event.local else ""
    taken = event.taken
    return text + (f", {taken.done} of {taken.count} done by execution {taken.of}" if taken is not None else "")


def _outside(event: ev.Event) -> str:
    match event:
        case ev.CancelRequested(reason=reason, by=by):
            return _asked("cancel", by, reason)
        case ev.PauseRequested(reason=reason, by=by):
            return _asked("pause", by, reason)
        case ev.ResumeRequested(by=by):
            return _asked("resume", by, "")
        case ev.SignalReceived(name=name, by=by):
            return _asked(f"signal {name}", by, "")
        case ev.SignalRejected(name=name, error=error):
            return f"signal {name} rejected: {error}"
        case ev.PlaybookPaused():
            return "paused"
        case ev.PlaybookResumed():
            return "resumed"
        case ev.PlaybookCompensating():
            return "undoing what is done"
        case ev.CompensationFailed(step=step, error=error):
            return f"{step} is not undone: {_error(error)}"
        case ev.LimitGranted(key=key):
            return f"has a place of {key}"
        case ev.ChildEnded(child=child, status=status):
            return f"execution {child} {status}"
        case ev.PlaybookProcessed(status=status, error=error):
            return f"execution {status}" + (f": {_error(error)}" if error else "")
    return ""


def _asked(what: str, by: str, reason: str) -> str:
    return f"{what} asked for" + (f" by {by}" if by else "") + (f": {reason}" if reason else "")


def _error(error: Mapping[str, Any] | None) -> str:
    return f"{(error or {}).get('kind', 'error')}: {(error or {}).get('message', '')}"
