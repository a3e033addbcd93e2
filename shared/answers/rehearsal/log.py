"""The log of a rehearsed execution: records as a reader gets them, with sequences, and what is stored beside them."""

from typing import Any

import msgspec

from shared.answers.rehearsal.types import Entry
from shared.engine.values.stored_values import MAX_RECORD_BYTES, Blobs, Unstorable, shrink, unwritable
from shared.errors import Forged
from shared.events import model as ev
from shared.events.record import Kept, Lease, Record, Writer, decode, encode, subject_of
from shared.events.stamp import stamp

Key = tuple[str, int]  # a run, and an iteration of it or -1


class Log:
    def __init__(self, execution_id: str, values: dict[str, Any]) -> None:
        self.execution_id, self.values = execution_id, values
        self.entries: list[Entry] = []
        self.events = 0
        self._about: dict[Key, list[Record]] = {}

    def about(self, key: Key) -> list[Record]:
        """What is known of a run: its leases' records and the ends of its waits."""
        return self._about.get(key, [])

    def small(self, events: list[ev.Event]) -> list[ev.Event]:
        """The events as they are in a record; what is too large is stored."""
        found, blobs = shrink(self.execution_id, events)
        self.store(blobs)
        return found

    def store(self, blobs: Blobs) -> None:
        for checksum, data in blobs.items():
            self.values[checksum] = msgspec.json.decode(data)

    def append(
        self, writer: Writer, n: int, now: float, events: list[ev.Event], *,
        as_of: int = 0, lease: Lease | None = None, source: str = "",
    ) -> Entry:
        """Unstorable when a record does not fit into a message."""
        record = Record(
            execution_id=self.execution_id, writer=writer, n=n, ts=stamp(now), events=tuple(events), as_of=as_of,
            lease=lease, source=source,
        )
        data = encode(record)
        if len(data) > MAX_RECORD_BYTES:
            raise Unstorable(unwritable(events))
        try:
            return self.add(decode(Kept(subject_of(record, 1), data), 1))
        except Forged as error:  # no worker writes what readers do not take
            raise Unstorable(str(error)) from None

    def add(self, record: Record) -> Entry:
        entry = len(self.entries) + 1, record
        self.entries.append(entry)
        self.events += len(record.events)
        if record.lease is not None:
            self._about.setdefault((record.lease.run_id, record.lease.index), []).append(record)
        elif record.writer == "scheduler":
            for event in record.events:
                if isinstance(event, ev.TaskResumed):
                    self._about.setdefault((event.run_id, event.index), []).append(record)
        return entry
