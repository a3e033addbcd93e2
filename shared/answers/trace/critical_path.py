"""Where the time of an execution went: the parts of every run, and the critical path through all of them.

The path is the chain of causes that ends last: the end of the execution, the run whose end it waited for, what
caused that run, and so on back to the request. In a loop it goes through the iteration that ended last, and the one
whose end made room for it. Its parts add up to the time of the execution exactly.
"""

from msgspec import Struct

from shared.answers.history.history import Entry, History, Key
from shared.answers.trace.loops import Loops, Status, Unit, count
from shared.answers.trace.spans import EXECUTION, Line, Marks, Span, by_part, micros, own_time
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.failure import TIMEOUT, kind_of
from shared.events.run_index import is_iteration


class Trace(Struct):
    execution_id: str
    path: str
    status: str
    start: int
    end: int
    runs: list[Unit]
    critical: list[Span]

    def work(self) -> dict[str, int]:
        """Microseconds by part over everything that ran, side by side or not."""
        total = by_part(())
        for run in self.runs:
            own = [span for span in run.spans if not is_iteration(span.index)] if run.iterations else run.spans
            for unit_spans in (own, *(each.spans for each in run.iterations)):
                for part, took in by_part(unit_spans).items():
                    total[part] += took
        return total


def trace(execution_id: str, entries: list[Entry], now: float) -> Trace:
    """Pure; `now` is where an execution that is not over is cut. Corrupt when its history does not fit together."""
    try:
        return _Tracer(History(execution_id, entries), round(now * 1e6)).trace()
    except (LookupError, ValueError, TypeError) as error:
        what = f"the history of {execution_id} does not fit together"
        raise Corrupt(f"{what}: {type(error).__name__} {error}") from None


class _Tracer:
    def __init__(self, history: History, now: int) -> None:
        self.history = history
        self.records = dict(history.entries)
        self.start = micros(history.entries[0][1].ts)
        self.path, self.status = "", "running"
        self.final: Entry | None = None
        self.routed: dict[str, tuple[int, ev.Event]] = {}     # by run: when the router ended it, and how
        self.parents: dict[str, str] = {}                     # of tokens
        self.entered: dict[str, Entry] = {}                   # by run: the record that scheduled it
        for entry in history.by("router"):
            self._read(entry)
        self.end = max(self.start, micros(self.final[1].ts) if self.final is not None else now)
        self.ends = history.run_ends()
        self.marks = _marks(history, self.end)
        self.units: dict[str, Unit] = {}
        self.loops = Loops(history, self.marks)

    def _read(self, entry: Entry) -> None:
        for event in entry[1].events:
            match event:
                case ev.ExecutionRequested(path=path):
                    self.path = path
                case ev.TokenCreated(token_id=token, parent_run_id=parent):
                    self.parents[token] = parent
                case ev.StepScheduled(run_id=run_id):
                    self.entered[run_id] = entry
                case ev.NextSelected(run_id=run_id) | ev.StepCancelled(run_id=run_id):
                    self.routed.setdefault(run_id, (micros(entry[1].ts), event))
                case ev.PlaybookProcessed(status=status):
                    self.final, self.status = entry, status

    def trace(self) -> Trace:
        for run_id in self.history.scheduled:
            self.units[run_id] = self._run(run_id)
        return Trace(
            self.history.execution_id, self.path, self.status, self.start, self.end,
            list(self.units.values()), self._critical(),
        )

    # -- runs --------------------------------------------------------------------------

    def _run(self, run_id: str) -> Unit:
        seq, event = self.history.scheduled[run_id]
        cause = self._cause(event, self.entered[run_id])
        start = self.units[cause].end if cause else self.start
        at, status, end_seq = self._ended(run_id, event, seq)
        scheduled = max(start, micros(self.entered[run_id][1].ts))
        line, key = Line(start, self.marks.pauses), Key(run_id)
        line.to("routing", scheduled, "", key)
        unit = Unit(
            key=key, step=event.step, start=start, scheduled=scheduled, end=max(at, scheduled), status=status,
            spans=[], cause=cause, seq=end_seq,
        )
        if event.loop:
            self.loops.time(unit, line, late=self._is_late(unit))
        elif event.pool:
            count(unit, self.history.held.get(key))
            own_time(key, line, self.history.held.get(key), self.marks, unit.end)
        unit.end, unit.spans = max(line.at, scheduled), line.spans
        return unit

    def _cause(self, event: ev.StepScheduled, entry: Entry) -> str:
        """The run whose end came last of those that put the tokens; of a compensation, the last that ended."""
        known = [parent for token in event.tokens if (parent := self.parents.get(token, "")) in self.units]
        if not event.tokens:
            known = [run for run, unit in self.units.items() if 0 < unit.seq <= entry[0]]
        return max(known, key=lambda run: self.units[run].seq) if known else ""

    def _ended(self, run_id: str, event: ev.StepScheduled, seq: int) -> tuple[int, Status, int]:
        routed = self.routed.get(run_id)
        found = self.ends.get(run_id)
        if not event.pool:
            return micros(self.entered[run_id][1].ts), "done", seq
        if found is not None:
            at, how = found[0]
            return micros(self.records[at].ts), _status(how), at
        if routed is not None:
            return routed[0], _status(routed[1]), 0
        return self.end, "running" if self.final is None else "cancelled", 0

    def _is_late(self, unit: Unit) -> bool:
        """It ended by its deadline."""
        end = self.ends[unit.key.run_id][0][1] if unit.seq else None
        return isinstance(end, ev.StepFailed) and kind_of(end.error) == TIMEOUT

    # -- the path ----------------------------------------------------------------------

    def _critical(self) -> list[Span]:
        chain: list[Unit] = []
        run = self._last_run()
        while run:
            chain.append(self.units[run])
            run = self.units[run].cause
        line = Line(self.start, self.marks.pauses)
        for unit in reversed(chain):
            line.follow(unit.spans, self.end)
        line.to("routing", self.end, "the end of the execution" if self.final is not None else "")
        return line.spans

    def _last_run(self) -> str:
        """The run that the end waited for; of an execution that is unfinished, or was stopped, one that was under
        way."""
        if self.final is not None:
            ended = [event.run_id for event in self.final[1].events if isinstance(event, ev.NextSelected)]
            if ended:
                return ended[-1]
            reported = [run for run, unit in self.units.items() if 0 < unit.seq <= self.final[1].as_of]
            late = [run for run in reported if run not in self.routed or isinstance(
                self.routed[run][1], ev.StepCancelled)]
            if late:
                return max(late, key=lambda run: self.units[run].seq)
        open_ = [run for run, unit in self.units.items() if not unit.seq]
        if open_:
            return open_[0]
        return max(self.units, key=lambda run: self.units[run].seq, default="")


def _status(event: ev.Event) -> Status:
    match event:
        case ev.StepFailed() | ev.NextSelected(event="step.failed"):
            return "failed"
        case ev.StepCancelled():
            return "cancelled"
    return "done"


def _marks(history: History, end: int) -> Marks:
    marks = Marks()
    paused: int | None = None
    for _, record in history.entries:
        for event in record.events if record.lease is None else ():
            match event:
                case ev.TaskResumed(run_id=run_id, index=index, wait=wait):
                    marks.resumed.setdefault((Key(run_id, index), wait), micros(record.ts))
                case ev.ChildEnded(run_id=run_id, index=index, wait=wait):
                    marks.children.setdefault((Key(run_id, index), wait), micros(record.ts))
                case ev.PlaybookPaused():
                    paused = micros(record.ts)
                case ev.PlaybookResumed() if paused is not None:
                    marks.pauses.append((paused, micros(record.ts)))
                    paused = None
                case ev.LimitGranted(run_id=run_id, index=index):
                    marks.grants.setdefault(Key(run_id, index), []).append(micros(record.ts))
                case ev.StepScheduled(run_id=run_id, limited=True):
                    marks.limited.add(run_id)
                case ev.PlaybookStarted(limit=limit) if limit is not None:
                    marks.limited.add(EXECUTION.run_id)
    if paused is not None:
        marks.pauses.append((paused, end))
    return marks
