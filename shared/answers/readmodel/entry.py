"""From a stored message to what is projected: the record, its time and its event rows."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Protocol

import msgspec
from msgspec import Struct

from shared.engine.projection_rows import EventRow
from shared.errors import Corrupt
from shared.events import record as records
from shared.events import subjects
from shared.events.record import Record

# PostgreSQL has no U+0000, neither in text nor in jsonb; the read model shows U+FFFD instead.
_NUL = rb"\u0000"
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_encode = msgspec.json.encode


class Stored(Protocol):
    """A message of an event stream."""

    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def seq(self) -> int: ...


class Entry(Struct, frozen=True):
    partition: int
    seq: int
    at: datetime
    record: Record


def read(message: Stored, partition: int) -> Entry:
    """Corrupt when the bytes are no record, or one that its subject's writer may not write."""
    data = message.data
    if _NUL in data:
        data = _NUL_ESCAPE.sub(rb"\1\\ufffd", data)
    try:
        record = records.decode(data)
    except RecursionError:
        raise Corrupt("a record nested too deeply to be read") from None
    place = subjects.parse_event(message.subject)
    if (record.execution_id, record.writer) != (place.execution_id, place.writer):
        raise Corrupt(f"a record of {record.execution_id} by {record.writer} under {message.subject}")
    if (record.lease is None) != (record.writer in ("router", "scheduler", "control")):
        raise Corrupt(f"a record by {record.writer} with the wrong kind of author")
    return Entry(partition, message.seq, _time(record.ts), record)


@lru_cache(maxsize=1024)
def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Corrupt(f"a record with the time {text!r}") from None
    if at.tzinfo is None:
        raise Corrupt(f"a record whose time has no zone: {text!r}")
    return at


def event_rows(entry: Entry) -> Iterator[EventRow]:
    """In the column order of `queries/insert_events.sql`."""
    for e in records.envelopes(entry.record):
        yield (
            e["execution_id"], e["event_id"], e["event_type"], entry.at, e["n"], e["source"],
            e["entity_type"], e["entity_id"], e["status"], e["step_run_id"], e["task_run_id"], e["trace_id"],
            e["parent_id"], entry.partition, entry.seq, _encode(e["payload"]).decode(),
        )  # fmt: skip
