"""From a stored message to what is projected: the record and its time."""

import re
from datetime import datetime

from msgspec import Struct

from shared.events import record as records
from shared.events import subjects
from shared.events.record import Kept, Record, Stored

# PostgreSQL has no U+0000, neither in text nor in jsonb; the read model shows U+FFFD instead.
_NUL = rb"\u0000"
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class Entry(Struct, frozen=True, gc=False):
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
    partition = subjects.partition_of(record.execution_id, partitions)  # where it is: `decode` has looked
    return Entry(partition, message.seq, datetime.fromisoformat(record.ts), record)
