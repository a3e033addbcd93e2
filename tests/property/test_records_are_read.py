"""Readers of the log see the records that our own write, and no forged ones. That any bytes anywhere are a record that
may stand there, or none, is held by the fuzzer of records."""

import pytest

from shared.errors import Corrupt, Forged
from shared.events.record import Kept, encode, readable, subject_of
from tests.property.fuzz.record_changes import AT, PARTITIONS
from tests.property.fuzz.records import RECORDS

SUBJECTS = [subject_of(record, PARTITIONS) for record in RECORDS]


def test_what_our_own_write_is_read() -> None:
    messages = [Kept(subject, encode(record), seq, AT)
                for seq, (subject, record) in enumerate(zip(SUBJECTS, RECORDS, strict=True), 1)]
    assert [record for _, record in readable(messages, PARTITIONS)] == list(RECORDS)


def test_readers_of_many_skip_what_is_forged_and_stop_at_what_a_control_service_cannot_have_written() -> None:
    good = Kept(SUBJECTS[0], encode(RECORDS[0]), 1, AT)
    forged = Kept(SUBJECTS[3], encode(RECORDS[0]), 2, AT)
    assert [seq for seq, _ in readable([good, forged, good], PARTITIONS)] == [1, 1]
    with pytest.raises(Corrupt) as found:
        list(readable([Kept(SUBJECTS[0], encode(RECORDS[3]), 3, AT)], PARTITIONS))
    assert not isinstance(found.value, Forged)
