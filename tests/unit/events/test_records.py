"""Which records may stand where, and which were written before the rules were as they are."""

import time
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.errors import Corrupt, Forged
from shared.events import bounds, subjects
from shared.events import model as ev
from shared.events.bounds import MAX_AHEAD_NS, MAX_NESTING, is_deep
from shared.events.outcome import Result
from shared.events.record import Kept, Lease, Record, decode, encode, subject_of

AT = 1_800_000_000 * 10**9
TS = "2027-01-15T08:00:00.000000Z"
LEASE = Lease("start:1", "start", (AT, 1), "w", pool="default")
DONE = Record("x", "worker", 1, TS, (ev.StepDone(),), lease=LEASE)


def read(record: Record, subject: str = "", at: int = AT) -> Record:
    return decode(Kept(subject or subject_of(record, 1), encode(record), 1, at), 1)


def test_a_record_of_an_older_log_names_no_pool_and_is_read() -> None:
    old = replace(DONE, lease=replace(LEASE, pool=""))
    assert subject_of(old, 1) == "noetl.events.0.x.worker"
    assert read(old) == old


@pytest.mark.parametrize(("body", "subject"), [("default", ""), ("", "default"), ("gpu", "default")])
def test_the_pool_of_a_lease_is_that_of_the_subject(body: str, subject: str) -> None:
    record = replace(DONE, lease=replace(LEASE, pool=body))
    with pytest.raises(Forged, match="pool"):
        read(record, subjects.event(0, "x", "worker", subject))


def test_a_lease_may_be_later_than_its_record_by_what_the_brokers_clock_was_set_back() -> None:
    late = replace(DONE, lease=replace(LEASE, epoch=(AT + MAX_AHEAD_NS, 1)))
    assert read(late) == late
    with pytest.raises(Forged, match="later than the broker's time"):
        read(replace(late, lease=replace(LEASE, epoch=(AT + MAX_AHEAD_NS + 1, 1))))
    assert read(late, at=0) == late  # nobody knows when it was written


def test_what_is_wrong_is_said_in_few_words_whatever_stands_there() -> None:
    for body in (b'{"execution_id":"x","writer":"%s"}' % (b"w" * 500_000), b'{"v":%s}' % (b"9" * 4000), b"\xff" * 9000):
        with pytest.raises(Forged) as found:
            decode(Kept(subject_of(DONE, 1), body), 1)
        assert len(str(found.value)) < 500


@pytest.mark.parametrize("ts", ["2027-01-15T08:00:00Z", TS])
def test_a_time_is_one_in_utc(ts: str) -> None:
    assert read(replace(DONE, ts=ts)).ts == ts


@pytest.mark.parametrize("ts", ["", "noon", "2027-01-15T08:00:00", "2027-01-15T08:00:00+01:00", "9999-12-31T00:00:00Z",
                                "1969-12-31T23:59:59Z", "2027-13-01T00:00:00Z", "2027-01-15T08:00:00Z" + " " * 40])
def test_any_other_time_is_none(ts: str) -> None:
    with pytest.raises(Forged):
        read(replace(DONE, ts=ts))


WRITERS: dict[str, Record] = {
    "router": Record("x", "router", 1, TS, (ev.PlaybookProcessed(),)),
    "scheduler": Record("x", "scheduler", 1, TS, (ev.LoopDone("r:1", "r"),)),
    "control": Record("x", "control", 1, TS, (ev.CancelRequested(),), source="s"),
    "worker": DONE,
    "iteration": Record("x", "iteration", 1, TS, (ev.IterationDone(),), lease=replace(LEASE, index=0)),
    "waiting": Record("x", "waiting", 1, TS, (ev.TaskWaiting("t", 1, "w", signal="go"),), lease=LEASE),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("other", WRITERS)
def test_each_writer_writes_its_own_events_alone(writer: str, other: str) -> None:
    record = replace(WRITERS[writer], events=WRITERS[other].events)
    if writer == other:
        assert read(record) == record
    else:
        with pytest.raises(Forged if writer in subjects.LEASED else Corrupt, match="not among its events"):
            read(record)


@pytest.mark.parametrize(("asked", "fits"), [
    ({}, False),
    ({"until": ""}, False),
    ({"pause": True}, False),
    ({"schema": {"type": "object"}}, False),
    ({"until": TS}, True),
    ({"until": TS, "pause": True}, True),
    ({"signal": "go"}, True),
    ({"signal": "go", "until": TS}, True),
    ({"child": ev.Child("c", "p")}, True),
    ({"child": ev.Child("c", "p"), "until": TS}, True),
    ({"child": ev.Child("c", "p"), "signal": "go"}, False),
    ({"child": ev.Child("c", "p"), "until": TS, "pause": True}, False),
    ({"signal": "go", "until": TS, "pause": True}, False),
])
def test_a_wait_is_for_one_thing(asked: dict[str, Any], fits: bool) -> None:
    """One for nothing would never be over."""
    record = replace(WRITERS["waiting"], events=(ev.TaskWaiting("t", 1, "w", **asked),))
    if fits:
        assert read(record) == record
    else:
        with pytest.raises(Forged, match="it waits for"):
            read(record)


def test_every_event_has_a_writer() -> None:
    from shared.events.authenticity import MAY_WRITE

    said = {kind for kinds in MAY_WRITE.values() for kind in kinds}
    assert said == set(ev.Event.__args__)


def nested(depth: int, inner: Any = "]" * 10) -> Any:
    value: Any = inner
    for number in range(depth):
        value = [value, number] if number % 2 else {"[{": value}
    return value


def test_depth_is_that_of_lists_and_mappings_not_of_brackets_in_texts() -> None:
    for depth in (1, 50, MAX_NESTING):
        assert not is_deep(msgspec.json.encode(nested(depth)))
    for depth in (MAX_NESTING + 1, 2 * MAX_NESTING, 900):
        assert is_deep(msgspec.json.encode(nested(depth)))
    assert not is_deep(msgspec.json.encode([{"a": ['"[[[\\', {}]}] * 5000))
    assert not is_deep(msgspec.json.encode("[" * 5000))


def test_what_a_worker_writes_is_bounded_in_depth_and_size() -> None:
    fine = replace(DONE, events=(ev.StepDone(Result(nested(MAX_NESTING - 10))),))
    assert read(fine) == fine
    with pytest.raises(Forged, match="deeper"):
        read(replace(DONE, events=(ev.StepDone(Result(nested(MAX_NESTING))),)))
    with pytest.raises(Forged, match="bytes"):
        read(replace(DONE, events=(ev.StepDone(Result("v" * bounds.MAX_RECORD_BYTES)),)))


@pytest.mark.parametrize("value", ["[" * 400_000, ['"'] * 150_000, [["[" * 9] * 9] * 5000, nested(190)])
def test_depth_is_known_in_no_time(value: Any) -> None:
    data = msgspec.json.encode(value)
    began = time.process_time()
    assert not is_deep(data)
    assert time.process_time() - began < 0.25
