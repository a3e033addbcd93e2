"""The history of one execution: who wrote what, and which reports count."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from shared.dsl.model.plan import Plan
from shared.engine.leases.fence import Fence, last_number
from shared.engine.leases.lease_fit import Sieve
from shared.events import model as ev
from shared.events.classes import ENDS_WORK
from shared.events.record import Epoch, Record, Writer
from shared.events.run_index import RUN, is_run, part_of

Entry = tuple[int, Record]
PlanOf = Callable[[str], Plan]
Rule = Literal[
    "beginning", "record", "numbering", "decision", "token", "run", "terminal", "ending", "loop", "ctx", "pipeline",
    "wait", "limit", "fence", "overlap", "call", "lease", "value", "projection", "stuck", "forged",
]
BOUNDARY = {ev.StepDone: "step.done", ev.StepFailed: "step.failed", ev.LoopDone: "loop.done"}


class Evidence(Struct, frozen=True):
    """A record by what tells it from others, and what it says here."""

    seq: int
    writer: str
    ts: str
    says: str
    worker: str = ""
    epoch: Epoch = (0, 0)

    def __str__(self) -> str:
        lease = f" {self.worker} epoch {self.epoch}" if self.worker else ""
        return f"@{self.seq} {self.ts} {self.writer}{lease}: {self.says}"


class Violation(Struct, frozen=True):
    """What the log says that cannot be right; `seq` is the record that shows it, `records` are all that do when one
    does not."""

    rule: Rule
    message: str
    seq: int = 0
    records: tuple[Evidence, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule} @{self.seq}: {self.message}"


def evidence(entry: Entry, says: str) -> Evidence:
    seq, record = entry
    lease = record.lease
    if lease is None:
        return Evidence(seq, record.writer, record.ts, says)
    return Evidence(seq, record.writer, record.ts, says, lease.worker, lease.epoch)


class Key(Struct, frozen=True):
    """A run, one iteration of it, or the claim of a frame of its rows."""

    run_id: str
    index: int = RUN

    def __str__(self) -> str:
        return self.run_id + ("" if is_run(self.index) else f"[{part_of(self.index)[1:]}]")


class Held(Struct):
    """The reports of a run that count, in log order; `end` is the sequence of its last event. `late`
    are those of leases that were superseded when they came, None if there are none; only the checker asks for them."""

    epoch: Epoch = (0, 0)
    n: int = 0
    end: int = 0
    kept: list[Entry] = []
    late: list[Entry] | None = None

    @property
    def terminal(self) -> ev.Event | None:
        return self.kept[-1][1].events[-1] if self.end else None


Accept = Callable[[Iterable[Entry]], dict[Key, Held]]


class History:
    """`unfit` are records of leases that do not fit (`engine/leases/lease_fit.py`), and why; no service has counted
    them. `accept` says which of the others count."""

    def __init__(self, execution_id: str, entries: Sequence[Entry], accept: Accept | None = None) -> None:
        self.execution_id = execution_id
        self.entries: list[Entry] = []
        self.unfit: list[tuple[int, str]] = []
        sieve = Sieve()
        for seq, record in sorted(entries, key=lambda entry: entry[0]):
            if reason := sieve.misfit(record):
                self.unfit.append((seq, reason))
            else:
                self.entries.append((seq, record))
        self.held = (accept or counted)(self.entries)
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
            if is_run(key.index) and held.terminal is not None:
                ends.setdefault(key.run_id, []).append((held.end, held.terminal))
        for seq, _, event in self.events("scheduler"):
            if isinstance(event, ev.LoopDone | ev.StepFailed):
                ends.setdefault(event.run_id, []).append((seq, event))
        for found in ends.values():
            found.sort(key=lambda end: end[0])
        return ends


def counted(entries: Iterable[Entry]) -> dict[Key, Held]:
    """Of records that fit, those that count. That a local loop has halted is not the end of its run."""
    fence, held = Fence(), dict[Key, Held]()
    for seq, record in entries:
        lease = record.lease
        if lease is None:
            continue
        hold = held.setdefault(Key(lease.run_id, lease.index), Held(kept=[]))
        if not fence.counts(record):
            continue
        hold.epoch, hold.n = lease.epoch, last_number(record)
        hold.kept.append((seq, record))
        last = record.events[-1]
        if isinstance(last, ENDS_WORK) and not isinstance(last, ev.LoopHalted):
            hold.end = seq
    return held
