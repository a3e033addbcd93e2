"""Whether each record is one its writer may write, with numbers that have no gap, and ends that end."""

from collections.abc import Iterable
from types import UnionType

from shared.answers.history.history import History, Key, Violation
from shared.answers.verify.reports import LAST, TERMINAL
from shared.events import model as ev
from shared.events.record import Lease, Record, Writer
from shared.events.run_index import is_iteration, is_run
from shared.events.stamp import seconds

LEASED: tuple[Writer, ...] = ("worker", "iteration", "waiting")


def _is_time(text: str) -> bool:
    try:
        seconds(text)
    except ValueError:
        return False
    return True


def check_records(history: History) -> Iterable[Violation]:
    """Each record is what its writer may write, and the sequences grow."""
    for seq, reason in history.unfit:
        yield Violation("record", f"it does not fit, and counts for nothing: {reason}", seq)
    last = 0
    for seq, record in history.entries:
        if seq <= last:
            yield Violation("record", f"sequence {seq} comes twice", seq)
        last = seq
        if record.execution_id != history.execution_id:
            yield Violation("record", f"a record of execution {record.execution_id}", seq)
        if not record.events:
            yield Violation("record", "a record without events", seq)
        if not _is_time(record.ts):
            yield Violation("record", f"a record of the time {record.ts!r:.60}", seq)
        if record.as_of >= seq:
            yield Violation("record", f"as of {record.as_of}, which is not before it", seq)
        leased = record.writer in LEASED
        if leased != (record.lease is not None):
            yield Violation("record", f"a record of {record.writer} {'without' if leased else 'with'} a lease", seq)
        elif record.lease is not None and record.writer not in _writers(record):
            yield Violation("record", f"index {record.lease.index} in a record of {record.writer}", seq)
        elif record.writer == "waiting" and not isinstance(record.events[-1], ev.TaskWaiting):
            yield Violation("record", "a record of waiting that does not end with a wait", seq)


def _writers(record: Record) -> tuple[Writer, ...]:
    """Who may speak of what. What a worker says of a local loop as a whole, the scheduler listens to."""
    assert record.lease is not None
    if not is_run(record.lease.index):
        return ("waiting", "iteration")
    whole = all(isinstance(event, ev.StepStarted | ev.LoopHalted | ev.LeaseReleased) for event in record.events)
    return ("waiting", "worker", "iteration") if whole else ("waiting", "worker")


def check_numbering(history: History) -> Iterable[Violation]:
    """`n` has no gap: per execution for router and scheduler, per lease for workers; what comes from
    outside is not counted. Only a lease may
    repeat a record, and then the very same one: its append got no answer and was tried again."""
    last: dict[object, int] = {}
    seen: dict[object, Record] = {}
    for seq, record in history.entries:
        lease = record.lease
        if record.writer == "control":
            continue
        stream: object = record.writer if lease is None else lease
        n = last.get(stream, 0)
        if record.n == n + 1:
            last[stream] = n + len(record.events)
            seen[stream, record.n] = record
        elif lease is None or record.n > n:
            yield Violation("numbering", f"{_who(record)}: event {record.n} follows {n}", seq)
            last[stream] = max(n, record.n + len(record.events) - 1)
        elif seen.get((stream, record.n)) != record:
            yield Violation("numbering", f"{_who(record)}: another record {record.n}", seq)


def _who(record: Record) -> str:
    lease = record.lease
    return record.writer if lease is None else f"{Key(lease.run_id, lease.index)} epoch {lease.epoch}"


def check_terminals(history: History) -> Iterable[Violation]:
    """A lease says once that its run has ended, and nothing after it."""
    ended: dict[object, int] = {}
    for seq, record in history.by(*LEASED):
        lease = record.lease
        if lease is None:
            continue
        if record.n > ended.get(lease, record.n):
            yield Violation("terminal", f"{_who(record)} goes on after its end", seq)
        for offset, event in enumerate(record.events):
            if isinstance(event, TERMINAL) and not isinstance(event, _ends(lease)):
                yield Violation("terminal", f"{_who(record)} ends as something else", seq)
            if isinstance(event, LAST):
                ended.setdefault(lease, record.n)
                if offset < len(record.events) - 1:
                    yield Violation("terminal", f"{_who(record)} goes on after its end", seq)


def _ends(lease: Lease) -> type | UnionType:
    if is_run(lease.index):
        return ev.StepDone | ev.StepFailed
    return ev.IterationDone | ev.IterationFailed if is_iteration(lease.index) else ev.FrameClaimed | ev.FrameFailed
