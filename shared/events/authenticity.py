"""Whether a record may be where it is. The broker lets only certain users write to a subject, so the subject
says who can have written it; what the body says of itself must be the same, and be that writer's to say.

Rules:
 - the execution is of the subject's partition;
 - writer, execution and pool of the body are those of the subject;
 - there is a lease if and only if the writer is a worker's;
 - the events are of those that the writer writes, about its own lease;
 - times are times, and no lease is later than its record, by more than the broker's clock may have been set back.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from msgspec import Struct

from shared.errors import Corrupt, Forged
from shared.events import bounds, subjects
from shared.events.event_types import lease as lease_events
from shared.events.event_types import outside, router, scheduler
from shared.events.fields import Base
from shared.events.model import Event
from shared.events.run_index import is_run

if TYPE_CHECKING:
    from shared.events.record import Lease, Record, Stored

_SHALLOW = 2 * bounds.MAX_NESTING + 140  # bytes: 140 of them a record of a lease has anyway
Check = Callable[[Any], str]


class RecordSubject(Struct, frozen=True):
    """What a subject says. `wrong`: no record may be there at all."""

    execution_id: str
    writer: str
    pool: str
    leased: bool
    wrong: str = ""

    def error(self, reason: str) -> Corrupt:
        return Forged(reason) if self.leased else Corrupt(reason)


@lru_cache(maxsize=16_384)
def record_subject(subject: str, partitions: int) -> RecordSubject:
    writer = subjects.writer_of(subject)
    leased = writer in subjects.LEASED
    try:
        under = subjects.parse_event(subject)
    except (TypeError, ValueError):
        return RecordSubject("", writer, "", leased, f"a record under {subject!r}")
    wrong = _wrong_subject(under, subject, partitions)
    return RecordSubject(under.execution_id, under.writer, under.pool, leased, wrong)


def _wrong_subject(under: subjects.EventSubject, subject: str, partitions: int) -> str:
    if not bounds.EXECUTION_ID.fullmatch(under.execution_id):
        return f"a record of {under.execution_id!r}, which is no execution"
    if subjects.partition_of(under.execution_id, partitions) != under.partition:
        return f"a record of {under.execution_id} in partition {under.partition}, where it is not"
    if under.writer not in MAY_WRITE:
        return f"a record by {under.writer!r}, which is no writer"
    if subject != subjects.event(*under) or (under.pool and under.writer not in subjects.LEASED):
        return f"a record under {subject!r}"
    if under.pool and not bounds.POOL.fullmatch(under.pool):
        return f"a record of the pool {under.pool!r}"
    return ""


def misplaced(record: "Record", under: RecordSubject, message: "Stored") -> str:
    """Why the record may not be there; empty if it may. Every record that anyone reads is checked here."""
    lease, writer = record.lease, under.writer
    if record.writer != writer or record.execution_id != under.execution_id:
        return f"a record of {record.execution_id[:64]} by {record.writer} under {message.subject}"
    if (lease is None) is under.leased:
        return f"a record by {writer} {'with' if lease else 'without'} a lease"
    if lease is not None and (
        lease.pool != under.pool
        or lease.epoch[0] > message.at + bounds.MAX_AHEAD_NS  # also of one whose time is not known: it is asked below
        or (writer == subjects.WORKER and not is_run(lease.index))
        or not lease.worker.isprintable()
        or (len(message.data) > _SHALLOW
            and (len(message.data) > bounds.MAX_RECORD_BYTES or bounds.is_deep(message.data)))
    ) and (wrong := _wrong_lease(lease, under, message)):
        return wrong
    if not is_time(record.ts):
        return f"a record with the time {record.ts!r}"
    return "" if _PLAIN[writer].issuperset(map(type, record.events)) else _wrong_event(record)


def _wrong_event(record: "Record") -> str:
    may = MAY_WRITE[record.writer]
    for event in record.events:
        check = may.get(type(event), _never)
        if check is not None and (wrong := check(event)):
            return f"{event.__struct_config__.tag} by {record.writer}: {wrong}"
    return ""


def _wrong_lease(lease: "Lease", under: RecordSubject, message: "Stored") -> str:
    """Asked only if something is wrong with it, or its time is not known."""
    data = message.data
    if lease.pool != under.pool:
        return f"a record of the pool {lease.pool[:64]!r} under {message.subject}"
    if message.at and lease.epoch[0] > message.at + bounds.MAX_AHEAD_NS:
        return f"a lease of {lease.epoch[0]} in a record of {message.at}: it is later than the broker's time"
    if not is_run(lease.index) and under.writer == subjects.WORKER:
        return f"a worker's record of the iteration {lease.index}"
    if not lease.worker.isprintable():
        return "a worker whose name cannot be printed"
    if len(data) > bounds.MAX_RECORD_BYTES:
        return f"a record of {len(data)} bytes, over {bounds.MAX_RECORD_BYTES}"
    return f"a record nested deeper than {bounds.MAX_NESTING}" if bounds.is_deep(data) else ""


def is_time(text: str) -> bool:
    """In UTC, as `stamp` writes it, and with some time before and after it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    return at.tzinfo is UTC and 1970 <= at.year < 9999


# -- which events each writer writes ---------------------------------------------------------


def _never(_event: Event) -> str:
    return "it is not among its events"


def _of_own_lease(event: lease_events.StepFailed | lease_events.IterationFailed) -> str:
    """With a run it is the scheduler's, about a loop."""
    return "it names a run" if event.run_id else ""


def _waits(event: lease_events.TaskWaiting) -> str:
    """For one thing: a child, a signal or a time, which the former two may have as their limit."""
    if event.until and not is_time(event.until):
        return f"it waits until {event.until!r}"
    if not (event.until or event.child or event.signal):
        return "it waits for nothing"
    if (event.child is not None) + bool(event.signal) + event.pause > 1:
        return "it waits for several things"
    return ""


def _until(event: router.PlaybookCancelling | router.PlaybookCompensating) -> str:
    return "" if is_time(event.until) else f"until {event.until!r}"


def _deadline(event: router.StepScheduled | scheduler.LoopStarted) -> str:
    return f"a deadline of {event.deadline!r}" if event.deadline and not is_time(event.deadline) else ""


_CHECKS: dict[type[Base], Check] = {
    lease_events.TaskWaiting: _waits,
    router.PlaybookCancelling: _until,
    router.PlaybookCompensating: _until,
    router.StepScheduled: _deadline,
    scheduler.LoopStarted: _deadline,
}
_Kinds = set[type[Base]]
_BEGIN: _Kinds = {
    lease_events.StepStarted, lease_events.TaskStarted, lease_events.TaskDone, lease_events.TaskRetried,
    lease_events.PolicyUnmatched,
}
_LEASE: _Kinds = {*_BEGIN, lease_events.LeaseReleased}
_STEP: _Kinds = {lease_events.StepDone, lease_events.StepFailed}
_ITERATION: _Kinds = {
    lease_events.IterationDone, lease_events.IterationFailed, lease_events.LoopHalted, lease_events.FrameClaimed,
    lease_events.FrameFailed,
}
_SAYS: dict[str, _Kinds] = {
    "router": {kind for kind in get_args(Event) if kind.__module__ == router.__name__},
    "scheduler": {
        *(kind for kind in get_args(Event) if kind.__module__ == scheduler.__name__),
        lease_events.StepFailed, lease_events.IterationFailed, router.StepCancelled,
    },
    "control": {kind for kind in get_args(Event) if kind.__module__ == outside.__name__},
    "worker": {*_LEASE, *_STEP},
    "iteration": {*_LEASE, *_ITERATION},
    "waiting": {*_BEGIN, lease_events.TaskWaiting},
}
_OWN: dict[type[Base], Check] = dict.fromkeys((lease_events.StepFailed, lease_events.IterationFailed), _of_own_lease)
MAY_WRITE: dict[str, Mapping[type[Base], Check | None]] = {
    writer: {kind: (_OWN.get(kind) if writer in subjects.LEASED else None) or _CHECKS.get(kind) for kind in kinds}
    for writer, kinds in _SAYS.items()
}
_PLAIN = {writer: frozenset(kind for kind, check in may.items() if check is None) for writer, may in MAY_WRITE.items()}
