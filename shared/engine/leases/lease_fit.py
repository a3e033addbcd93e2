"""Whether what a worker wrote of a lease fits what the log holds before it. Whoever has the credentials of a pool can
write any record there that can be read; a fold counts only those that fit, so every reader has the same state.

1. The run was scheduled, with a tool, and the lease names its step and its pool.
2. The writer says what it is about: `worker` a plain run, `iteration` an iteration that was started, a frame that was
   requested, or a local loop as a whole; `waiting` one of the first two.
3. The events are ones that such a lease can write, its last event last. Rows are at most as many as requested, and the
   child of a wait has the id that follows from it.

Being late is not being unfit: what an earlier lease still writes fits, and counts for nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from shared.events import model as ev
from shared.events.classes import ENDS_LEASE
from shared.events.outcome import Outcome, Result
from shared.events.record import Lease, Record, Writer, event_type
from shared.events.request import derive_id
from shared.events.run_index import frame_of, is_frame, is_iteration, is_run, iteration_part, part_of

Entry = tuple[int, Record]
Kinds = frozenset[type[ev.Event]]
_ANY: Kinds = frozenset({ev.StepStarted, ev.LeaseReleased})
_TASKS: Kinds = _ANY | {ev.TaskStarted, ev.TaskDone, ev.TaskRetried, ev.PolicyUnmatched}
_OF_RUN: Kinds = _TASKS | {ev.StepDone, ev.StepFailed}
_OF_ITERATION: Kinds = _TASKS | {ev.IterationDone, ev.IterationFailed}
_OF_WAIT: Kinds = _TASKS | {ev.TaskWaiting}
_OF_WHOLE: Kinds = _ANY | {ev.LoopHalted}
_OF_FRAME: Kinds = _ANY | {ev.FrameClaimed, ev.FrameFailed}
_LAST: Kinds = frozenset(get_args(ENDS_LEASE))
_SHAPED: dict[type[ev.Event], Callable[[Any], Result | Outcome]] = {  # those with a result, and where it is
    ev.TaskDone: attrgetter("outcome"), ev.TaskRetried: attrgetter("outcome"),
    ev.StepDone: attrgetter("result"), ev.IterationDone: attrgetter("result"),
}
_BY_PLAIN: Mapping[Writer, Kinds] = {"worker": _OF_RUN, "waiting": _OF_WAIT}  # who reports on a run that is no loop
_WITH_CLAIMS: Kinds = frozenset({ev.FrameClaimed, ev.LoopHalted, ev.TaskWaiting})  # say more than a lease may claim
MAX_DIGITS = 9  # of the number of a run
MAX_SHOWN = 80  # characters of a name that a reason repeats


class Known(Struct, frozen=True):
    """A run, as far as a reader knows it. `since` is the record that scheduled it or, of a part of a loop, started the
    part. `begun`: iterations before this one were started; `frames` were asked for, the last of at most `rows` rows.
    None: this reader does not follow it."""

    step: str
    pool: str
    loop: bool = False
    since: int = 0
    local: bool | None = None
    begun: int | None = None
    frames: int | None = None
    rows: int | None = None


def misfit(seq: int, record: Record, known: Known | None) -> str:
    """Why a record of a lease does not fit; empty when it does. `seq` 0: it is read in the order of the log."""
    lease = record.lease
    if lease is None:
        return ""
    if known is None or not known.pool:
        return f"run {_short(lease.run_id)} was not scheduled for a worker"
    if seq and seq <= known.since:
        return f"it was written before {_named(lease)} was there"
    if lease.step != known.step:
        return f"run {_short(lease.run_id)} is one of step {known.step!r}, not of {_short(lease.step)}"
    if lease.pool and lease.pool != known.pool:
        return f"run {_short(lease.run_id)} is for pool {known.pool!r}, not for {_short(lease.pool)}"
    sayable = _sayable(record.writer, lease.index, known)
    if sayable is None:
        return f"{_named(lease)} is not reported on by {record.writer}"
    if known.loop and (wrong := _misplaced(lease, known)):
        return wrong
    return _misspoken(record, lease, known, sayable)


def _sayable(writer: Writer, index: int, known: Known) -> Kinds | None:
    """What such a writer can say of it; None: nothing."""
    if not known.loop:
        return _BY_PLAIN.get(writer) if is_run(index) else None
    if writer == "waiting":
        return _OF_WAIT if is_iteration(index) else None
    if writer != "iteration":
        return None
    if is_run(index):
        return _OF_WHOLE
    return _OF_ITERATION if is_iteration(index) else _OF_FRAME


def _misplaced(lease: Lease, known: Known) -> str:
    """Of what is or belongs to a loop."""
    index = lease.index
    if known.local is False and is_run(index):
        return f"loop {_short(lease.run_id)} is nobody's as a whole"
    if known.begun is not None and index >= known.begun:
        return f"{_named(lease)} was not started"
    if known.frames is not None and is_frame(index) and frame_of(index) >= known.frames:
        return f"{_named(lease)} was not asked for"
    return ""


def _misspoken(record: Record, lease: Lease, known: Known, sayable: Kinds) -> str:
    last = record.events[-1]
    for event in record.events:
        kind = type(event)
        if kind not in sayable:
            return f"{_named(lease)} has no {event_type(event)}"
        if kind in _LAST and event is not last:
            return f"{_named(lease)} goes on after its {event_type(event)}"
        shaped = _SHAPED.get(kind)
        if shaped is not None and shaped(event).shape == "loop" and _is_misshapen(shaped(event)):
            return f"{_named(lease)} has a result in the shape of a loop that is none"
    return _wrong_end(record, lease, known) if type(last) in _WITH_CLAIMS else ""


def _is_misshapen(found: Result | Outcome) -> bool:
    """Of what says that it has the shape of a loop."""
    value = found.value if isinstance(found, Result) else found.result
    return found.ref is None and not (isinstance(value, dict) and isinstance(value.get("results"), list))


def _wrong_end(record: Record, lease: Lease, known: Known) -> str:
    match record.events[-1]:
        case ev.FrameClaimed(count=count, rows=rows, rows_ref=ref):
            most = known.rows if frame_of(lease.index) + 1 == known.frames else None
            if count < 0 or (ref is None and count != len(rows)) or (most is not None and count > most):
                return f"{_named(lease)} has {count} rows, of which {len(rows)} are there"
        case ev.LoopHalted(next=following, index=index):
            most = known.begun
            if following < 0 or index >= following or (most is not None and following > most):
                return f"{_named(lease)} halts at {following}, after {index}"
        case ev.TaskWaiting(child=child, wait=wait) if child is not None:
            if child.execution_id != child_of(record.execution_id, lease, wait):
                return f"{_named(lease)} waits for an execution that is not its child"
    return ""


def child_of(execution_id: str, lease: Lease, wait: str) -> str:
    """The id of the execution that a wait asks for."""
    return derive_id("child", f"{execution_id}/{lease.run_id}{iteration_part(lease.index)}/{wait}")


def was_scheduled(counts: Mapping[str, int], run_id: str) -> bool:
    """Whether the run is among those scheduled so far of its step, which are numbered from 1."""
    step, _, number = run_id.rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
        return False
    return 0 < int(number) <= counts.get(step, 0)


def _named(lease: Lease) -> str:
    return _short(f"{lease.run_id}{part_of(lease.index)}")


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")


class Sieve:
    """The runs of one execution as its records name them, in the order of the log."""

    def __init__(self) -> None:
        self._runs: dict[str, Known] = {}

    def misfit(self, record: Record) -> str:
        """Why the next record of the log does not fit; empty when it does."""
        if record.lease is not None:
            return misfit(0, record, self._runs.get(record.lease.run_id))
        for event in record.events:
            self._decided(event)
        return ""

    def _decided(self, event: ev.Event) -> None:
        match event:
            case ev.StepScheduled(run_id=run_id, step=step, pool=pool, loop=loop):
                # Of a loop nothing can be held before it has started.
                known = Known(step, pool)
                if loop:
                    known = Known(step, pool, loop=True, local=False, begun=0, frames=0, rows=0)
                self._runs.setdefault(run_id, known)
            case ev.LoopStarted(run_id=run_id, local=local) if run_id in self._runs:
                self._runs[run_id] = replace(self._runs[run_id], local=local)
            case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in self._runs:
                self._runs[run_id] = replace(self._runs[run_id], begun=first + count)
            case ev.FrameStarted(run_id=run_id, frame=frame, size=size) if run_id in self._runs:
                self._runs[run_id] = replace(self._runs[run_id], frames=frame + 1, rows=size)


def fitting(entries: Iterable[Entry]) -> Iterator[Entry]:
    """A history, in the order of the log, without the records that do not fit."""
    sieve = Sieve()
    for entry in entries:
        if not sieve.misfit(entry[1]):
            yield entry
