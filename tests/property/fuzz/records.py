"""Whatever stands in the log, the decoder says what it is: a record that fits its place, Forged where a worker may
write, Corrupt elsewhere. Whatever a worker can write that can be read, no reader of a history raises for it, and what
does not fit changes nothing."""

import random
from typing import Any, NamedTuple

import msgspec

from shared.engine.leases.lease_fit import Sieve, fitting
from shared.errors import Corrupt, Forged
from shared.events import model as ev
from shared.events import subjects
from shared.events.authenticity import is_time
from shared.events.bounds import MAX_AHEAD_NS
from shared.events.outcome import Result, ok
from shared.events.record import Kept, Lease, Record, decode, encode
from tests.property.fuzz.folds import FOLDS, SPACE, Entries, projected, recorded, summarised
from tests.property.fuzz.record_changes import AT, PARTITIONS, message
from tests.property.fuzz.runner import Fuzzer, Seen

TS = "2027-01-15T08:00:00.000000Z"
LEASE = Lease("start:1", "start", (AT, 1), "w", pool="default")
RECORDS = (
    Record("x", "router", 3, TS, (ev.StepScheduled("start:1", "start", pool="default"), ev.PlaybookProcessed()), 7),
    Record("x", "scheduler", 1, TS, (ev.LoopStarted("start:1", "start", 2), ev.TaskResumed("start:1", "w")), 7),
    Record("x", "control", 1, TS, (ev.CancelRequested("why"),), source="s"),
    Record("x", "worker", 1, TS, (ev.StepStarted(), ev.TaskDone("t", 1, ok({"a": [1]}), "continue"), ev.StepDone(
        Result({"a": 1}))), lease=LEASE),
    Record("x", "iteration", 2, TS, (ev.IterationFailed({"kind": "x"}),),
           lease=msgspec.structs.replace(LEASE, index=3)),
    Record("x", "waiting", 1, TS, (ev.TaskWaiting("t", 1, "w", ev.Child("c", "p"), TS),), lease=LEASE),
)
TOKENS = ("noetl", "events", "0", "1", "2", "3", "x", "y", "a b", "é", "worker", "router", "waiting", "nobody",
          "default", "gpu", "a/b", "", "*", ">", "9" * 300)
SIZES = (10, 100, 600)  # messages put into one history, of which somewhat less than half can be read


class Planted(NamedTuple):
    """Messages put between the records of a history. `by_service`: one where only services write, or in place of
    one of theirs."""

    history: int
    messages: list[tuple[int, Kept]]
    by_service: bool = False


def make(chance: random.Random) -> Kept | Planted:
    drawn = chance.random()
    if drawn < 0.7:
        return _message(chance)
    histories, _ = recorded()
    place = chance.randrange(len(histories))
    entries = histories[place]
    if drawn < 0.85:
        kept = message(chance, [record for _, record in entries if record.lease is None])
        seq, _ = chance.choice(entries)
        return Planted(place, [(seq - chance.randrange(2), kept)], by_service=True)
    leased = [record for _, record in entries if record.lease is not None]
    return Planted(place, [(chance.randrange(1, (len(entries) + 1) * SPACE), message(chance, leased))
                           for _ in range(chance.choice(SIZES))])


def _message(chance: random.Random) -> Kept:
    """Now and then anywhere at all, and at any time."""
    kept = message(chance, RECORDS)
    if chance.random() < 0.8:
        return kept
    tokens = kept.subject.split(".")
    for _ in range(chance.randrange(3)):
        tokens[chance.randrange(len(tokens))] = chance.choice(TOKENS)
    subject = ".".join(tokens[: chance.randint(0, 9)] if chance.random() < 0.2 else tokens)
    return Kept(subject, kept.data, 1, chance.choice((0, 1, AT, 2**63)))


def promise(case: Kept | Planted) -> Seen:
    if isinstance(case, Kept):
        return Seen((_decoded(case)[1],))
    return _told(case) if case.by_service else _folded(case)


def _decoded(kept: Kept) -> tuple[Record | None, str]:
    try:
        record = decode(kept, PARTITIONS)
    except Corrupt as error:
        _refused(kept, error)
        return None, type(error).__name__
    _stands(record, kept)
    assert decode(Kept(kept.subject, encode(record), 1, kept.at), PARTITIONS) == record
    return record, "a record"


def _refused(kept: Kept, error: Corrupt) -> None:
    writer = kept.subject.split(".")[4:5]
    assert isinstance(error, Forged) == (writer != [] and writer[0] in subjects.LEASED)


def _stands(record: Record, kept: Kept) -> None:
    place = subjects.parse_event(kept.subject)
    assert (record.execution_id, record.writer) == (place.execution_id, place.writer)
    assert subjects.partition_of(record.execution_id, PARTITIONS) == place.partition
    assert (record.lease is not None) == (place.writer in subjects.LEASED)
    assert record.events
    assert record.n >= 1
    assert is_time(record.ts)
    if record.lease is not None:
        assert record.lease.pool == place.pool
        assert (1, 1) <= record.lease.epoch < ((kept.at or 2**63) + MAX_AHEAD_NS, 2**31)


def _folded(case: Planted) -> Seen:
    """Every reader sees what it would without that which does not fit."""
    histories, values = recorded()
    entries, kinds = _planted(histories[case.history], case)
    fit = list(fitting(entries))
    sieve = Sieve()
    for _, record in entries:
        kinds.append("does not fit" if sieve.misfit(record) else "fits")
    for fold in FOLDS:
        assert fold(entries, values) == fold(fit, values), fold.__name__
    return Seen(kinds)


def _told(case: Planted) -> Seen:
    """What only services write may be refused, by the one word that sets an execution aside or shows it as it is."""
    histories, values = recorded()
    entries, kinds = _planted(histories[case.history], case)
    for fold in (summarised, projected):
        try:
            fold(entries, values)
        except Corrupt:
            kinds.append("set aside")
    return Seen(kinds)


def _planted(history: Entries, case: Planted) -> tuple[Entries, list[str]]:
    """What a reader has of it, and what became of each message."""
    found, kinds = dict(history), list[str]()
    for seq, kept in case.messages:
        record, kind = _decoded(kept)
        kinds.append(kind)
        if record is not None and (case.by_service or seq not in found):
            found[seq] = record
    return sorted(found.items()), kinds


def show(case: Any) -> str:
    return "\n".join(f"{seq}: {kept}" for seq, kept in case.messages) if isinstance(case, Planted) else repr(case)


FUZZER = Fuzzer(
    "records", make, promise, frozenset(("a record", "Forged", "Corrupt", "fits", "does not fit")), most_s=3.0,
    show=show,
)
