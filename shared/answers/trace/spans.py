"""Where the time of one run or iteration went, from the times of its records.

    routing     the router: from what caused a step until it decided to enter it
    scheduling  the scheduler: until the command is in its pool's queue, its turn among others included; windows, ends
                of loops and of waits
    limit       a limit holds the run back (`limit.granted` ends it)
    queue       the command waits for a worker, or the run in a worker for its turn at a tool
    run         in tools: what the outcomes of the tasks say they took
    reporting   the worker's own: history, templates, facts that have to be in the log before it continues
    backoff     pauses between attempts
    waiting     without a worker, for a child, a signal or a time
    takeover    from the last record of a worker that was lost to the first record of the next
    paused      someone paused the execution; only what the router and the scheduler would have done waits for it

A record has one time, that of its last event. The time a command was queued is the epoch of the lease that took it,
by the broker's clock. Clocks of several machines may differ: no part is shorter than nothing, and all parts of a run
add up to its time.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Literal

from msgspec import Struct

from shared.answers.history.history import Entry, Held, Key
from shared.answers.history.summary import awaited
from shared.events import model as ev
from shared.events.record import Record
from shared.events.stamp import seconds

Part = Literal[
    "routing", "scheduling", "limit", "queue", "run", "reporting", "backoff", "waiting", "takeover", "paused"
]
PARTS: tuple[Part, ...] = (
    "run", "queue", "waiting", "backoff", "limit", "routing", "scheduling", "reporting", "takeover", "paused",
)
EXECUTION = Key("")  # whoever holds a place for all runs
_HELD_BACK = ("routing", "scheduling")  # by a pause
Pauses = Sequence[tuple[int, int]]


class Span(Struct, frozen=True):
    """Microseconds since the epoch. `index` is the iteration that a loop's time went to."""

    part: Part
    start: int
    end: int
    about: str = ""
    run_id: str = ""
    index: int = -1


class Marks(Struct):
    """What the log says of a run's times beside its reports, by run and iteration. `grants` are places of limits that
    were given: to a run or iteration, or to the execution as a whole. `limited` are runs that wait for one."""

    grants: dict[Key, list[int]] = {}
    limited: set[str] = set()
    resumed: dict[tuple[Key, str], int] = {}
    children: dict[tuple[Key, str], int] = {}
    pauses: list[tuple[int, int]] = []


class Line:
    """A line of time without gaps, from its start to `at`."""

    def __init__(self, start: int, pauses: Pauses = ()) -> None:
        self.at = start
        self.spans: list[Span] = []
        self._pauses = pauses

    def to(self, part: Part, end: int, about: str = "", key: Key | None = None) -> None:
        """The time until then went to this part; nothing when it is over already."""
        if part in _HELD_BACK:
            for begin, until in self._pauses:
                self._add(part, min(begin, end), about, key)
                self._add("paused", min(until, end), "", key)
        self._add(part, end, about, key)

    def _add(self, part: Part, end: int, about: str, key: Key | None) -> None:
        if end <= self.at:
            return
        run_id, index = (key.run_id, key.index) if key is not None else ("", -1)
        last = self.spans[-1] if self.spans else None
        if last is not None and (last.part, last.about, last.run_id, last.index) == (part, about, run_id, index):
            self.spans[-1] = Span(part, last.start, end, about, run_id, index)
        else:
            self.spans.append(Span(part, self.at, end, about, run_id, index))
        self.at = end

    def follow(self, spans: Iterable[Span], until: int | None = None) -> None:
        for span in spans:
            end = span.end if until is None else min(span.end, until)
            self._add(span.part, end, span.about, Key(span.run_id, span.index))


class _Call(Struct):
    """`queued` microseconds before its start the run got in line for a turn."""

    start: int
    end: int
    queued: int
    event: ev.TaskDone | ev.TaskRetried


def micros(ts: str) -> int:
    return round(seconds(ts) * 1e6)


def begun(held: Held) -> int:
    """When its first worker began, as far as the log says."""
    lease = _leases(held.kept)[0]
    return _start(lease, _calls(lease))


def own_time(key: Key, line: Line, held: Held | None, marks: Marks, end: int) -> None:
    """Adds the time of a run that a worker can have, from its scheduling to its `end`."""
    sent = True
    waiting: ev.TaskWaiting | None = None
    for lease in _leases(held.kept if held is not None else ()):
        calls = _calls(lease)
        start = max(line.at, _start(lease, calls))
        if sent:
            _sent(key, line, lease, marks, start)
        else:
            line.to("takeover", start, "", key)
        pause, last = _worked(key, line, calls), lease[-1][1]
        line.to("backoff", min(line.at + pause, micros(last.ts)), "", key)
        line.to("run" if _open(last) else "reporting", micros(last.ts), _open(last), key)
        event = last.events[-1]
        waiting = event if isinstance(event, ev.TaskWaiting) else None
        sent = waiting is not None or isinstance(event, ev.LeaseReleased)
        if waiting is not None:
            _waited(key, line, waiting, marks, end)
    _rest(key, line, held, marks, waiting, end)


def _leases(kept: Sequence[Entry]) -> list[list[Entry]]:
    leases: list[list[Entry]] = []
    for entry in kept:
        if leases and leases[-1][-1][1].lease == entry[1].lease:
            leases[-1].append(entry)
        else:
            leases.append([entry])
    return leases


def _start(lease: list[Entry], calls: list[_Call]) -> int:
    first = micros(lease[0][1].ts)
    return min(first, calls[0].start) if calls else first


def _calls(lease: list[Entry]) -> list[_Call]:
    """Backwards from the time of each record: a call took what its outcome says."""
    calls: list[_Call] = []
    for _, record in lease:
        at, found = micros(record.ts), list[_Call]()
        for event in reversed(record.events):
            if isinstance(event, ev.TaskDone | ev.TaskRetried):
                start = at - _micros_of(event, "duration_s")
                queued = _micros_of(event, "queued_s")
                found.append(_Call(start, at, queued, event))
                at = start - queued
        calls += reversed(found)
    return calls


def _micros_of(event: ev.TaskDone | ev.TaskRetried, what: str) -> int:
    found = event.outcome.meta.get(what, 0.0)
    return round(found * 1e6) if isinstance(found, int | float) else 0


def _sent(key: Key, line: Line, lease: list[Entry], marks: Marks, start: int) -> None:
    """From the decision that a worker should have it until one has."""
    _granted(key, line, marks, start)
    held = lease[0][1].lease
    queued = held.epoch[0] // 1000 if held is not None else 0
    line.to("scheduling", min(queued, start), "", key)
    line.to("queue", start, "", key)


def _granted(key: Key, line: Line, marks: Marks, until: int) -> None:
    """A run has its place when it has its own, and the execution has its."""
    for granted in sorted((*marks.grants.get(EXECUTION, ()), *marks.grants.get(key, ()))):
        if granted <= until:
            line.to("limit", granted, "", key)


def _lacks_place(key: Key, marks: Marks) -> bool:
    own = key.run_id in marks.limited and key not in marks.grants
    return own or (EXECUTION.run_id in marks.limited and EXECUTION not in marks.grants)


def _worked(key: Key, line: Line, calls: list[_Call]) -> int:
    """The calls of a lease, and how long the last one says to wait before the next."""
    pause = 0
    for call in calls:
        line.to("backoff", min(line.at + pause, call.start), "", key)
        line.to("reporting", call.start - call.queued, "", key)
        line.to("queue", call.start, "", key)
        line.to("run", call.end, _named(call.event), key)
        pause = round(call.event.delay * 1e6) if isinstance(call.event, ev.TaskRetried) else 0
    return pause


def _named(event: ev.TaskDone | ev.TaskRetried) -> str:
    return f"{event.task}" + (f" attempt {event.attempt}" if event.attempt > 1 else "")


def _open(record: Record) -> str:
    """The task that was begun last, and not finished."""
    last = record.events[-1]
    return last.task if isinstance(last, ev.TaskStarted) else ""


def _waited(key: Key, line: Line, waiting: ev.TaskWaiting, marks: Marks, end: int) -> None:
    part: Part = "backoff" if waiting.pause else "waiting"
    about = "" if waiting.pause else awaited(waiting)
    over = min(marks.resumed.get((key, waiting.wait), end), end)
    answered = marks.children.get((key, waiting.wait))
    if answered is not None:
        line.to(part, min(answered, over), about, key)
        line.to("scheduling", over, "", key)
    line.to(part, over, about, key)


def _rest(
    key: Key, line: Line, held: Held | None, marks: Marks, waiting: ev.TaskWaiting | None, end: int
) -> None:
    """What is left when nobody has said how it ended: it is under way, or someone else ended it."""
    if held is None or not held.kept or waiting is not None:
        _granted(key, line, marks, end)
        line.to("limit" if _lacks_place(key, marks) else "queue", end, "", key)
    elif not held.end and isinstance(held.kept[-1][1].events[-1], ev.LeaseReleased):
        line.to("queue", end, "", key)
    elif not held.end:
        last = held.kept[-1][1]
        if isinstance(last.events[-1], ev.TaskRetried):
            line.to("backoff", min(line.at + round(last.events[-1].delay * 1e6), end), "", key)
        line.to("run", end, _open(last), key)


def by_part(spans: Iterable[Span]) -> dict[str, int]:
    """Microseconds by part, every part there."""
    found: dict[str, int] = dict.fromkeys(PARTS, 0)
    for span in spans:
        found[span.part] += span.end - span.start
    return found


def rank(values: Sequence[int], share: float) -> int:
    """The nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * share) - 1)] if ordered else 0

