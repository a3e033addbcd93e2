"""From a stored message to what is projected: the record, its time and its event rows."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from shared.answers.readmodel.rows import EventRow
from shared.events import record as records
from shared.events import subjects
from shared.events.record import Kept, Record, Stored

# PostgreSQL has no U+0000, neither in text nor in jsonb; the read model shows U+FFFD instead.
_NUL = rb"\u0000"
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_encode = msgspec.json.encode


class Entry(Struct, frozen=True):
    partition: int
    seq: int
    at: datetime
    record: Record


def read(message: Stored, partitions: int) -> Entry:
    """Corrupt if the bytes are no record, or one that may not be there."""
    record = records.decode(message, partitions)
    if _NUL in message.data:
        data = _NUL_ESCAPE.sub(rb"\1\\ufffd", message.data)
        record = records.decode(Kept(message.subject, data, message.seq, message.at), partitions)
    return Entry(subjects.parse_event(message.subject).partition, message.seq, _time(record.ts), record)


@lru_cache(maxsize=1024)
def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def event_rows(entry: Entry) -> Iterator[EventRow]:
    """In the column order of `queries/insert_events.sql`."""
    for e in records.envelopes(entry.record):
        yield (
            e["execution_id"], e["event_id"], e["event_type"], entry.at, e["n"], e["source"],
            e["entity_type"], e["entity_id"], e["status"], e["step_run_id"], e["task_run_id"], e["trace_id"],
            e["parent_id"], entry.partition, entry.seq, _encode(e["payload"]).decode(),
        )  # fmt: skip
