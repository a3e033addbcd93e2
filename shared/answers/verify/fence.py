"""One worker at a time inside a run: a worker that has lost it begins no further call, once it can know.

A lease is superseded by the first record of a higher epoch: the claim. What its worker still says does not count, but
its calls have been made. Not its fault are

- the call that was in flight when the run was claimed, however late its end comes: a worker that was stopped comes
  back with it;
- what the first record after the claim begins: between a worker's last look and its call it may have been stopped;
- calls begun within KNOWS_S of the claim.

Whatever else it begins is a finding (`fence`), and worse if the worker that has the run is in a call of it at that very
time (`overlap`). The order of records is the broker's; times are the writers'.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from shared.answers.history.history import Entry, Held, History, Key, Violation, evidence
from shared.events import model as ev
from shared.events.record import Epoch, Lease
from shared.events.run_index import is_run
from shared.events.stamp import seconds

# A holder hears of a claim, or finds it in the log by itself, and stops within about two seconds.
KNOWS_S = 2.0
MAX_SHOWN = 6  # records of one finding
ENDS = ev.TaskDone | ev.TaskRetried


class Span(Struct):
    """A call from where the log shows its beginning; `end` None: it shows none."""

    task: str
    attempt: int
    at: Entry
    start: float
    end: float | None = None

    def is_that(self, other: "Span") -> bool:
        return (self.task, self.attempt) == (other.task, other.attempt)

    def meets(self, other: "Span") -> bool:
        ours, theirs = (float("inf") if span.end is None else span.end for span in (self, other))
        return self.start < theirs and other.start < ours


def check_fence(history: History) -> Iterable[Violation]:
    for key, held in history.held.items():
        if held.late is None:
            continue
        kept = held.kept if is_run(key.index) else [*held.kept, *_of_whole(history, key)]
        leases: dict[Lease, list[Entry]] = {}
        for entry in held.late:
            leases.setdefault(lease_of(entry), []).append(entry)
        for lease, own in leases.items():
            with suppress(ValueError):  # a time that is none, a claim without an event: `record` tells
                claim = min((each for each in kept if lease_of(each).epoch > lease.epoch), key=lambda each: each[0])
                yield from _goes_on(key, held, claim, own)


def _of_whole(history: History, key: Key) -> list[Entry]:
    """Whoever claims a local loop as a whole claims its iterations."""
    whole = history.held.get(Key(key.run_id))
    return whole.kept if whole is not None else []


def _goes_on(key: Key, held: Held, claim: Entry, own: Sequence[Entry]) -> Iterator[Violation]:
    known = seconds(claim[1].ts) + KNOWS_S
    begun = [call for call in calls(own) if call.at[0] != own[0][0] and call.start > known]
    if not begun:
        return
    first, since = begun[0], seconds(claim[1].ts)
    ours, theirs = _who(own[0]), _who(claim)
    tasks = ", ".join(call.task for call in begun[:MAX_SHOWN])
    shown = [evidence(call.at, f"task {call.task} begun") for call in begun[:MAX_SHOWN]]
    yield Violation(
        "fence", f"{key}: {ours} begins calls ({tasks}) under a lease that {theirs} had superseded, the first "
        f"{first.start - since:.3f} s after the claim", first.at[0],
        (evidence(claim, "claims the run"), *shown),
    )
    yield from _together(key, held, claim, begun)


def _together(key: Key, held: Held, claim: Entry, begun: Sequence[Span]) -> Iterator[Violation]:
    """The holder's calls at the same time."""
    others = calls([entry for entry in held.kept if entry[0] >= claim[0]])
    pairs = [(call, other) for call in begun for other in others if call.meets(other)]
    if not pairs:
        return
    pairs = sorted(pairs, key=lambda pair: not pair[0].is_that(pair[1]))[:MAX_SHOWN]
    call, other = pairs[0]
    same = "both in the same call" if call.is_that(other) else "in two calls"
    shown = {span.at[0]: evidence(span.at, f"in task {span.task}") for pair in pairs for span in pair}
    yield Violation(
        "overlap", f"{key}: {_who(call.at)} (task {call.task}) and {_who(other.at)} (task {other.task}) are inside at "
        f"the same time, {same}", max(call.at[0], other.at[0]),
        (evidence(claim, "claims the run"), *(shown[seq] for seq in sorted(shown))),
    )


def calls(entries: Sequence[Entry]) -> list[Span]:
    """The calls whose beginning is in these records of one run, a lease after the other. A record has the time of its
    last event; what its outcomes took is laid out backwards from there."""
    found: list[Span] = []
    open_: dict[Epoch, Span] = {}
    for entry in entries:
        record, epoch = entry[1], lease_of(entry).epoch
        at = seconds(record.ts) - sum(_took(event) for event in record.events)
        for event in record.events:
            if isinstance(event, ev.TaskStarted):
                open_[epoch] = Span(event.task, event.attempt, entry, at)
                found.append(open_[epoch])
            elif isinstance(event, ENDS):
                at += _took(event)
                call = open_.pop(epoch, None)
                if call is not None:
                    call.start = min(call.start, at - _took(event))
                    call.end = at
    return found


def _took(event: ev.Event) -> float:
    took = event.outcome.meta.get("duration_s", 0.0) if isinstance(event, ENDS) else 0.0
    return took if isinstance(took, int | float) else 0.0


def lease_of(entry: Entry) -> Lease:
    assert entry[1].lease is not None
    return entry[1].lease


def _who(entry: Entry) -> str:
    lease = lease_of(entry)
    return f"{lease.worker} (epoch {lease.epoch[0]}.{lease.epoch[1]})"
