"""The time of a loop: of each iteration, and of the chain of them that ends last.

An iteration is let in by a record of the scheduler; in a loop that one worker runs as a whole, by that worker, when it
is begun.
"""

from bisect import bisect_right
from typing import Literal

from msgspec import Struct

from shared.answers.history.history import Held, History, Key
from shared.answers.trace.spans import Line, Marks, Span, begun, micros, own_time
from shared.events import model as ev
from shared.events.run_index import is_iteration

Status = Literal["running", "done", "failed", "cancelled"]


class Unit(Struct, kw_only=True):
    """A run, or an iteration. `start` is when its cause was there, `seq` the record that ended it (0: none)."""

    key: Key
    step: str
    start: int
    scheduled: int
    end: int
    status: Status
    spans: list[Span]
    cause: str = ""
    seq: int = 0
    attempts: int = 0
    leases: int = 0
    iterations: list["Unit"] = []


class _Let(Struct, frozen=True):
    """When an iteration was let in, and up to where whoever did it had read."""

    at: int
    as_of: int
    by_worker: bool = False


class _Loop(Struct):
    started: int = 0
    lets: dict[int, _Let] = {}


class Loops:
    def __init__(self, history: History, marks: Marks) -> None:
        self._history, self._marks = history, marks
        self._records = dict(history.entries)
        self._loops: dict[str, _Loop] = {}
        for _, record, event in history.events("scheduler"):
            let = _Let(micros(record.ts), record.as_of)
            match event:
                case ev.LoopStarted(run_id=run_id):
                    self._of(run_id).started = let.at
                case ev.IterationStarted(run_id=run_id, first=first, count=count):
                    self._of(run_id).lets.update(dict.fromkeys(range(first, first + count), let))
        for key, held in history.held.items():
            if is_iteration(key.index) and held.kept and self._is_whole(key.run_id):
                self._of(key.run_id).lets[key.index] = _Let(begun(held), held.kept[0][0] - 1, by_worker=True)

    def _is_whole(self, run_id: str) -> bool:
        """One worker at a time has all of it."""
        held = self._history.held.get(Key(run_id))
        return held is not None and bool(held.kept)

    def _of(self, run_id: str) -> _Loop:
        return self._loops.setdefault(run_id, _Loop())

    def time(self, unit: Unit, line: Line, *, late: bool) -> None:
        """Adds the time of the loop-run to its line, and its iterations to the unit. `late`: its deadline ended it."""
        loop, key = self._of(unit.key.run_id), unit.key
        units = [self._iteration(unit, index, let) for index, let in loop.lets.items()]
        unit.iterations = [each for each in units if is_iteration(each.key.index)]
        line.to("scheduling", min(loop.started, unit.end), "", key)
        self._taken(key, line, self._history.held.get(key), unit.end)
        for each in self._chain(unit, units, loop, late):
            part: Literal["reporting", "scheduling"] = (
                "reporting" if loop.lets[each.key.index].by_worker else "scheduling"
            )
            line.to(part, min(each.scheduled, unit.end), "", key)
            line.follow(each.spans, unit.end)
        line.to("scheduling", unit.end, "", key)

    def _taken(self, key: Key, line: Line, held: Held | None, end: int) -> None:
        """A local loop goes to a worker as a whole."""
        if held is None or not held.kept:
            return
        first = held.kept[0][1]
        assert first.lease is not None
        line.to("scheduling", min(first.lease.epoch[0] // 1000, micros(first.ts), end), "", key)
        line.to("queue", min(micros(first.ts), end), "", key)

    def _iteration(self, unit: Unit, index: int, let: _Let) -> Unit:
        key = Key(unit.key.run_id, index)
        held = self._history.held.get(key)
        end, seq = unit.end, 0
        status: Status = "running" if unit.status == "running" else "cancelled"
        if held is not None and held.end:
            end, seq = micros(held.kept[-1][1].ts), held.end
            status = "failed" if isinstance(held.terminal, ev.IterationFailed) else "done"
        line = Line(let.at, self._marks.pauses)
        own_time(key, line, held, self._marks, max(end, let.at))
        each = Unit(
            key=key, step=unit.step, start=let.at, scheduled=let.at, end=line.at, status=status, spans=line.spans,
            cause="", seq=seq,
        )
        count(each, held)
        return each

    def _chain(self, unit: Unit, units: list[Unit], loop: _Loop, late: bool) -> list[Unit]:
        """From the first one on: each was let in by the end of the one before. Where nothing that ended was the loop's
        end, it leads to one that was under way."""
        ended = sorted((each for each in units if each.seq), key=lambda each: each.seq)
        last = _before(ended, self._records[unit.seq].as_of) if unit.seq else None
        if last is None or late:
            last = next((each for each in units if not each.seq), last or (ended[-1] if ended else None))
        chain: list[Unit] = []
        while last is not None:
            chain.append(last)
            folded = loop.lets[last.key.index].as_of
            last = _before(ended, min(folded, last.seq - 1) if last.seq else folded)
        return chain[::-1]


def _before(ended: list[Unit], until: int) -> Unit | None:
    """The last that had ended by then."""
    at = bisect_right(ended, until, key=lambda each: each.seq)
    return ended[at - 1] if at else None


def count(unit: Unit, held: Held | None) -> None:
    """How often it was tried, and by how many."""
    if held is not None:
        events = [event for _, record in held.kept for event in record.events]
        unit.attempts = sum(isinstance(event, ev.TaskDone | ev.TaskRetried) for event in events)
        unit.leases = sum(isinstance(event, ev.StepStarted) for event in events)
