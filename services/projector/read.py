"""From a message to what is projected: the record, its time and its event rows. Pure."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from services.projector.rows import CtxKey, EventRow, LoopKey, RunKey
from shared.bus.ports import Message
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events import record as records
from shared.events import subjects
from shared.events.record import Record

# PostgreSQL has no U+0000, neither in text nor in jsonb; the read model shows U+FFFD instead.
_NUL = rb"\u0000"
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_encode = msgspec.json.encode


class Entry(Struct, frozen=True):
    partition: int
    seq: int
    at: datetime
    record: Record
    message: Message


def read(message: Message, partition: int) -> Entry:
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
    return Entry(partition, message.seq, _time(record.ts), record, message)


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


class Touched(Struct):
    """The keys of the rows a batch may change."""

    executions: set[str] = set()
    runs: set[RunKey] = set()
    loops: set[LoopKey] = set()
    ctx: set[CtxKey] = set()

    def add(self, record: Record) -> None:
        self.executions.add(record.execution_id)
        if record.lease is not None:
            self._run(record.execution_id, record.lease.run_id, record.lease.index)
            return
        for event in record.events:
            self._decided(record.execution_id, event)

    def _decided(self, execution: str, event: ev.Event) -> None:
        match event:
            case ev.CtxPatched(patch=patch) | ev.PlaybookRestored(ctx=patch):
                self.ctx.update((execution, key) for key in patch)
            case ev.IterationFailed(run_id=run_id, index=index) | ev.TaskResumed(run_id=run_id, index=index):
                self._run(execution, run_id, index)
            case ev.StepScheduled(run_id=run_id) | ev.NextSelected(run_id=run_id):
                self._run(execution, run_id)
            case ev.StepFailed(run_id=run_id) | ev.StepCancelled(run_id=run_id):
                self._loop(execution, run_id)
            case ev.LoopStarted() | ev.IterationStarted() | ev.LoopDone():
                self._loop(execution, event.run_id)

    def _loop(self, execution: str, run_id: str) -> None:
        self._run(execution, run_id)
        self.loops.add((execution, run_id))

    def _run(self, execution: str, run_id: str, index: int = -1) -> None:
        self.runs.add((execution, run_id, index))
        if index >= 0:
            self.loops.add((execution, run_id))
