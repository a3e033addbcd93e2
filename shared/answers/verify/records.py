"""The history of one execution as the checks see it: who wrote what, and which reports count.

The fence is stated here a second time, apart from the folds of the services: a report counts if no
higher epoch spoke of the run before it, once, and until the run has ended. Whoever holds a local loop as a whole
holds its iterations.
"""

from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Literal

from msgspec import Struct

from shared.dsl.plan import Plan
from shared.events import model as ev
from shared.events.index import RUN, part_of
from shared.events.record import Epoch, Lease, Record, Writer
from shared.events.stamp import seconds

Entry = tuple[int, Record]
PlanOf = Callable[[str], Plan]
Rule = Literal[
    "record", "numbering", "decision", "token", "run", "terminal", "ending", "loop", "ctx", "pipeline", "wait",
    "limit", "value", "projection",
]
PIPELINE_END = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed
TERMINAL = PIPELINE_END | ev.FrameClaimed | ev.FrameFailed
LAST = TERMINAL | ev.TaskWaiting | ev.LoopHalted
LEASED: tuple[Writer, ...] = ("worker", "iteration", "waiting")
BOUNDARY = {ev.StepDone: "step.done", ev.StepFailed: "step.failed", ev.LoopDone: "loop.done"}


class Violation(Struct, frozen=True):
    """What the log says that cannot be right; `seq` is the record that shows it."""

    rule: Rule
    message: str
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.rule} @{self.seq}: {self.message}"


class Key(Struct, frozen=True):
    """A run, one iteration of it, or the claim of a frame of its rows."""

    run_id: str
    index: int = RUN

    def __str__(self) -> str:
        return self.run_id + (f"[{part_of(self.index)[1:]}]" if self.index != RUN else "")


class Held(Struct):
    """The reports of a run that count, in log order; `end` is the sequence of its last event."""

    epoch: Epoch = (0, 0)
    n: int = 0
    end: int = 0
    kept: list[Entry] = []

    @property
    def terminal(self) -> ev.Event | None:
        return self.kept[-1][1].events[-1] if self.end else None


class History:
    def __init__(self, execution_id: str, entries: Sequence[Entry]) -> None:
        self.execution_id = execution_id
        self.entries = sorted(entries, key=lambda entry: entry[0])
        self.held = accepted(self.entries)
        self.scheduled: dict[str, tuple[int, ev.StepScheduled]] = {}
        for seq, _, event in self.events("router"):
            if isinstance(event, ev.StepScheduled):
                self.scheduled.setdefault(event.run_id, (seq, event))

    def by(self, *writers: Writer) -> list[Entry]:
        return [entry for entry in self.entries if entry[1].writer in writers]

    def events(self, *writers: Writer) -> Iterable[tuple[int, Record, ev.Event]]:
        for seq, record in self.by(*writers):
            for event in record.events:
                yield seq, record, event

    @property
    def over(self) -> bool:
        return any(isinstance(event, ev.PlaybookProcessed) for _, _, event in self.events("router"))

    def run_ends(self) -> dict[str, list[tuple[int, ev.Event]]]:
        """Every end of a run that a router may act on: what workers and the scheduler said of it."""
        ends: dict[str, list[tuple[int, ev.Event]]] = {}
        for key, held in self.held.items():
            if key.index == RUN and held.terminal is not None:
                ends.setdefault(key.run_id, []).append((held.end, held.terminal))
        for seq, _, event in self.events("scheduler"):
            if isinstance(event, ev.LoopDone | ev.StepFailed):
                ends.setdefault(event.run_id, []).append((seq, event))
        for found in ends.values():
            found.sort(key=lambda end: end[0])
        return ends


def accepted(entries: Iterable[Entry]) -> dict[Key, Held]:
    held: dict[Key, Held] = {}
    for seq, record in entries:
        lease = record.lease
        if lease is None:
            continue
        hold = held.setdefault(Key(lease.run_id, lease.index), Held(kept=[]))
        whole = held.get(Key(lease.run_id))
        if hold.end or lease.epoch < hold.epoch or (whole is not None and lease.epoch < whole.epoch):
            continue
        if lease.epoch > hold.epoch:
            hold.epoch, hold.n = lease.epoch, 0
        if record.n <= hold.n or not record.events:
            continue
        hold.n = record.n + len(record.events) - 1
        hold.kept.append((seq, record))
        if isinstance(record.events[-1], TERMINAL):
            hold.end = seq
    return held


def _is_time(text: str) -> bool:
    try:
        seconds(text)
    except ValueError:
        return False
    return True


def check_records(history: History) -> Iterable[Violation]:
    """Each record is what its writer may write, and the sequences grow."""
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
    if record.lease.index != RUN:
        return ("waiting", "iteration")
    whole = all(isinstance(event, ev.StepStarted | ev.LoopHalted) for event in record.events)
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
    if lease.index == RUN:
        return ev.StepDone | ev.StepFailed
    return ev.IterationDone | ev.IterationFailed if lease.index > RUN else ev.FrameClaimed | ev.FrameFailed
