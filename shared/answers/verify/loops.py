"""Loops, counted from the scheduler's events and the reports of iterations and frames."""

from collections.abc import Iterable, Iterator

from shared.answers.history.history import History, Key, Violation
from shared.answers.verify.frames import Frames
from shared.answers.verify.local_loops import check_local
from shared.engine.scheduling import carried_loop
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.failure import INTERNAL, LIMIT, TEMPLATE, TIMEOUT, kind_of
from shared.events.run_index import is_frame, is_run


class _Tally:
    """One loop-run as far as the scheduler has got."""

    def __init__(self) -> None:
        self.started: ev.LoopStarted | None = None
        self.todo = carried_loop.EVERY
        self.frames: Frames | None = None
        self.next = 0
        self.live: set[int] = set()
        self.over = self.stopped = False

    def start(self, event: ev.LoopStarted, values: Values) -> None:
        self.started, self.todo = event, carried_loop.todo(event.taken, values)
        self.frames = Frames(event.count) if event.frame else None

    def count(self, history: History, run_id: str, as_of: int) -> int:
        """The elements there were."""
        if self.frames is not None:
            return self.frames.claimed(history, run_id, as_of)
        return self.started.count if self.started is not None else -1


def check_loops(history: History, values: Values) -> Iterable[Violation]:
    """Every index starts once, in order, at most `max_in_flight` at a time; the loop ends once, and as
    done only when every iteration has ended, or every one that it started before it was stopped. Iterations that
    were taken over do not run."""
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
        if isinstance(event, ev.LoopStarted) and tally.started is None:
            tally.start(event, values)
        elif isinstance(event, ev.LoopStarted):
            yield Violation("loop", f"loop {run_id} starts twice", seq)
        for message in _step(history, tally, run_id, record.as_of, event):
            yield Violation("loop", message, seq)
    yield from _check_reports(history, tallies)
    yield from _check_routed(history, tallies)
    for run_id, tally in tallies.items():
        if tally.started is not None and tally.started.local:
            yield from check_local(history, run_id, tally.started.max_in_flight)


def _is_plain(history: History, event: ev.Event) -> bool:
    """A plain run that was over its time, whose place has no key, or that waited as it cannot (`check_asked` tells)."""
    if not isinstance(event, ev.StepFailed) or event.run_id not in history.scheduled:
        return False
    scheduled = history.scheduled[event.run_id][1]
    keyless = scheduled.limited and kind_of(event.error) in (TEMPLATE, LIMIT)
    waited = kind_of(event.error) == INTERNAL and any(
        record.lease is not None and record.lease.run_id == event.run_id for _, record in history.by("waiting"))
    return not scheduled.loop and (keyless or waited or kind_of(event.error) == TIMEOUT)


def _step(history: History, tally: _Tally, run_id: str, as_of: int, event: ev.Event) -> Iterator[str]:
    match event:
        case ev.FrameStarted(frame=frame):
            if tally.frames is None or tally.stopped:
                yield f"loop {run_id} claims a frame, but has no cursor or was stopped"
            else:
                yield from tally.frames.start(history, run_id, as_of, frame)
        case ev.IterationStarted(first=first, count=count):
            yield from _check_window(history, tally, run_id, as_of, first, count)
            tally.next = max(tally.next, first + count)
            tally.live.update(range(first, first + count))
        case ev.LoopStopped():
            tally.stopped = True
            tally.next = event.next if event.next >= 0 else tally.next
        case ev.LoopDone():
            yield from _check_done(history, tally, run_id, as_of, event)
            tally.over = True
        case ev.StepFailed():
            tally.over = True


def _check_done(history: History, tally: _Tally, run_id: str, as_of: int, event: ev.LoopDone) -> Iterator[str]:
    count = event.count
    whole = tally.next if tally.stopped else tally.count(history, run_id, as_of)
    if count != whole or event.stopped != tally.stopped:
        yield f"loop {run_id} is done with {count} iterations, another number than it started"
    missing = [
        index for index in range(count) if index in tally.todo and not _ended(history, run_id, index, as_of)
    ]
    if missing:
        yield f"loop {run_id} is done before its iterations {missing[:10]} are"
    if tally.frames is not None and not tally.stopped and not tally.frames.is_dry(history, run_id, as_of):
        yield f"loop {run_id} is done, and its cursor may have more rows"


def _check_window(
    history: History, tally: _Tally, run_id: str, as_of: int, first: int, count: int
) -> Iterator[str]:
    if tally.started is None:
        yield f"loop {run_id} has iterations before its start"
        return
    total = tally.count(history, run_id, as_of)
    if _is_out_of_order(tally, first, count) or count < 1 or first + count > total:
        yield f"loop {run_id} starts {first} … {first + count - 1} after {tally.next} of {total}"
    if tally.stopped:
        yield f"loop {run_id} starts {first} after it was stopped"
    if tally.started.local:
        return
    tally.live = {index for index in tally.live if not _ended(history, run_id, index, as_of)}
    if len(tally.live) + count > tally.started.max_in_flight:
        yield f"loop {run_id} has {len(tally.live) + count} iterations in flight, over {tally.started.max_in_flight}"


def _is_out_of_order(tally: _Tally, first: int, count: int) -> bool:
    """Iterations that were taken over are passed by; a local loop is one window, in which its worker does that."""
    if tally.started is not None and tally.started.local:
        return first != tally.next
    skipped = tally.todo.below(first) - tally.todo.below(tally.next)
    return first < tally.next or skipped > 0 or tally.todo.below(first + count) - tally.todo.below(first) != count


def _ended(history: History, run_id: str, index: int, as_of: int) -> bool:
    held = history.held.get(Key(run_id, index))
    return held is not None and 0 < held.end <= as_of


def _check_reports(history: History, tallies: dict[str, _Tally]) -> Iterator[Violation]:
    for key, held in history.held.items():
        if not held.kept or (is_run(key.index) and held.kept[0][1].writer != "iteration"):
            continue
        tally = tallies.get(key.run_id)
        if is_run(key.index):
            if tally is None or tally.started is None or not tally.started.local:
                yield Violation("loop", f"{key} is held as a local loop, and is none", held.kept[0][0])
        elif is_frame(key.index):
            if tally is None or tally.frames is None or not tally.frames.has(key.index):
                yield Violation("loop", f"frame {key} reports, but was never started", held.kept[0][0])
        elif tally is None or key.index >= tally.next or key.index not in tally.todo:
            yield Violation("loop", f"iteration {key} reports, but was never started", held.kept[0][0])


def _check_routed(history: History, tallies: dict[str, _Tally]) -> Iterator[Violation]:
    for seq, _, event in history.events("router"):
        if isinstance(event, ev.NextSelected) and event.run_id in history.scheduled:
            loop = history.scheduled[event.run_id][1].loop
            if loop and (event.run_id not in tallies or not tallies[event.run_id].over):
                yield Violation("loop", f"loop {event.run_id} is routed on, but never ended", seq)
