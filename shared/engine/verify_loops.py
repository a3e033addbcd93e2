"""Loops, counted from the scheduler's events and the iterations' reports."""

from collections.abc import Iterable, Iterator

from shared.engine.verify_history import History, Key, Violation
from shared.events import model as ev


class _Tally:
    """One loop-run as far as the scheduler has got."""

    def __init__(self) -> None:
        self.started: ev.LoopStarted | None = None
        self.next = 0
        self.live: set[int] = set()
        self.over = self.stopped = False


def check_loops(history: History) -> Iterable[Violation]:
    """Every index starts once, in order, at most `max_in_flight` at a time; the loop ends once, and as
    done only when every iteration has ended, or every one that it started before it was stopped."""
    tallies: dict[str, _Tally] = {}
    for seq, record, event in history.events("scheduler"):
        run_id: str = getattr(event, "run_id", "")
        if isinstance(event, ev.TaskResumed | ev.SignalRejected) or _is_plain(history, event):
            continue
        if run_id not in history.scheduled or not history.scheduled[run_id][1].loop:
            yield Violation("loop", f"{type(event).__name__} of {run_id!r}, which is no loop-run", seq)
            continue
        tally = tallies.setdefault(run_id, _Tally())
        if tally.over:
            yield Violation("loop", f"loop {run_id} goes on after its end", seq)
        for message in _step(history, tally, run_id, record.as_of, event):
            yield Violation("loop", message, seq)
    yield from _check_reports(history, tallies)
    yield from _check_routed(history, tallies)


def _is_plain(history: History, event: ev.Event) -> bool:
    """A plain run that was over its time, or whose place has no key."""
    if not isinstance(event, ev.StepFailed) or event.run_id not in history.scheduled:
        return False
    scheduled = history.scheduled[event.run_id][1]
    keyless = scheduled.limited and event.error.get("kind") == "template"
    return not scheduled.loop and (keyless or event.error.get("kind") == "timeout")


def _step(history: History, tally: _Tally, run_id: str, as_of: int, event: ev.Event) -> Iterator[str]:
    match event:
        case ev.LoopStarted():
            if tally.started is not None:
                yield f"loop {run_id} starts twice"
            tally.started = event
        case ev.IterationStarted(first=first, count=count):
            yield from _check_window(history, tally, run_id, as_of, first, count)
            tally.next = max(tally.next, first + count)
            tally.live.update(range(first, first + count))
        case ev.LoopStopped():
            tally.stopped = True
        case ev.LoopDone(count=count):
            tally.over = True
            whole = tally.next if tally.stopped else tally.started.count if tally.started is not None else -1
            if count != whole or event.stopped != tally.stopped:
                yield f"loop {run_id} is done with {count} iterations, another number than it started"
            missing = [index for index in range(count) if not _ended(history, run_id, index, as_of)]
            if missing:
                yield f"loop {run_id} is done before its iterations {missing[:10]} are"
        case ev.StepFailed():
            tally.over = True


def _check_window(
    history: History, tally: _Tally, run_id: str, as_of: int, first: int, count: int
) -> Iterator[str]:
    if tally.started is None:
        yield f"loop {run_id} has iterations before its start"
        return
    if first != tally.next or count < 1 or first + count > tally.started.count:
        yield f"loop {run_id} starts {first} … {first + count - 1} after {tally.next} of {tally.started.count}"
    if tally.stopped:
        yield f"loop {run_id} starts {first} after it was stopped"
    tally.live = {index for index in tally.live if not _ended(history, run_id, index, as_of)}
    if len(tally.live) + count > tally.started.max_in_flight:
        yield f"loop {run_id} has {len(tally.live) + count} iterations in flight, over {tally.started.max_in_flight}"


def _ended(history: History, run_id: str, index: int, as_of: int) -> bool:
    held = history.held.get(Key(run_id, index))
    return held is not None and 0 < held.end <= as_of


def _check_reports(history: History, tallies: dict[str, _Tally]) -> Iterator[Violation]:
    for key, held in history.held.items():
        if key.index < 0 or not held.kept:
            continue
        tally = tallies.get(key.run_id)
        if tally is None or key.index >= tally.next:
            yield Violation("loop", f"iteration {key} reports, but was never started", held.kept[0][0])


def _check_routed(history: History, tallies: dict[str, _Tally]) -> Iterator[Violation]:
    for seq, _, event in history.events("router"):
        if isinstance(event, ev.NextSelected) and event.run_id in history.scheduled:
            loop = history.scheduled[event.run_id][1].loop
            if loop and (event.run_id not in tallies or not tallies[event.run_id].over):
                yield Violation("loop", f"loop {event.run_id} is routed on, but never ended", seq)
