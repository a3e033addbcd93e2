"""A record: the events of one decision, or of one lease's progress, as one message.

What the events share is on the record, once; `envelopes` gives each event the full envelope
of FX §9.1, FS §12.1 and DSL2 §9.3. `n` counts events without a gap: per execution for the router
and the scheduler, per lease for a worker (many leases of one execution are written at once). What comes
from outside (`control`) is one event per record and names its `source`: the same source again is the
same fact.

`decode` is the only way from bytes to a record, and `readable` that of whoever reads many. A record is checked by
where it is: its subject says who can have written it (ADR 27).
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from shared.errors import Forged
from shared.events import subjects
from shared.events.authenticity import misplaced, record_subject
from shared.events.bounds import Attempt, Count, Index, Name, Positive, Seq, Text, Time
from shared.events.event_types.status import status_of
from shared.events.model import Event
from shared.events.run_index import part_of

Writer = Literal["router", "scheduler", "worker", "iteration", "waiting", "control"]
Epoch = tuple[int, int]
VERSION = 1
MAX_WHY = 300  # characters of what is wrong with it, which may quote it


class Lease(Struct, frozen=True, omit_defaults=True, gc=False):
    """Who writes: a worker's hold on a step-run, on one iteration of it (index ≥ 0), or on the claim of a frame of rows
    (`run_index.py`).

    The epoch is the command's broker timestamp and its delivery count: every later hold of the same run compares
    greater. `pool` is that of the record's subject; empty in records from before it had one. `pid` is the worker's
    process, since several processes may have had the worker's name; 0 in records from before it was recorded.
    """

    run_id: Name
    step: Name
    epoch: tuple[Positive, Attempt]
    worker: Name
    index: Index = -1
    pool: Text = ""
    pid: Count = 0


class Record(Struct, frozen=True, omit_defaults=True, gc=False):
    """`as_of` is the last log sequence a decision had folded: with it the decision can be re-derived."""

    execution_id: str
    writer: Writer
    n: Positive
    ts: Time
    events: Annotated[tuple[Event, ...], Meta(min_length=1)]
    as_of: Seq = 0
    lease: Lease | None = None
    source: Text = ""
    v: Count = VERSION


Entry = tuple[int, Record]  # as a reader has it: with its sequence in the log


class _Version(Struct):
    v: Count = VERSION


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_version = msgspec.json.Decoder(_Version)


def encode(record: Record) -> bytes:
    return _encoder.encode(record)


class Stored(Protocol):
    """A message of an event stream. `at` is the broker's time in ns; 0: not known."""

    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def seq(self) -> int: ...
    @property
    def at(self) -> int: ...


def subject_of(record: Record, partitions: int) -> str:
    """Where it belongs."""
    partition = subjects.partition_of(record.execution_id, partitions)
    return subjects.event(partition, record.execution_id, record.writer, record.lease.pool if record.lease else "")


class Kept(Struct, frozen=True, gc=False):
    """Such a message, made of its parts."""

    subject: str
    data: bytes
    seq: int = 0
    at: int = 0


def decode(message: Stored, partitions: int) -> Record:
    """Forged where a worker may write, Corrupt elsewhere, if it is not what may be there. Unknown fields
    are ignored."""
    under = record_subject(message.subject, partitions)
    if under.wrong:
        raise under.error(under.wrong)
    try:
        record = _decoder.decode(message.data)
    except msgspec.ValidationError as error:
        why = str(error)[:MAX_WHY]
        raise under.error(f"a record that does not fit version {VERSION}: {why}{_newer(message.data)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise under.error(f"a record that is not JSON: {str(error)[:MAX_WHY]}") from None
    except RecursionError:
        raise under.error("a record nested too deeply to be read") from None
    if record.v > VERSION:
        raise under.error(f"a record of version {record.v}; this build reads up to {VERSION}: upgrade the reader")
    if wrong := misplaced(record, under, message):
        raise under.error(wrong)
    return record


def readable(messages: Iterable[Stored], partitions: int) -> Iterator[tuple[int, Record]]:
    """The records with their sequences, as every reader sees them: without those that are forged."""
    for message in messages:
        try:
            yield message.seq, decode(message, partitions)
        except Forged:
            continue


def _newer(data: bytes) -> str:
    try:
        v = _version.decode(data).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return f" (written by version {v}: upgrade the reader)" if v > VERSION else ""


def event_type(event: Event) -> str:
    return str(event.__struct_config__.tag)


def event_id(record: Record, n: int) -> str:
    lease = record.lease
    if lease is None:
        return f"{record.writer}-{record.source or n}"
    return f"{lease.run_id}{part_of(lease.index)}-{lease.epoch[0]}.{lease.epoch[1]}-{n}"


def trace_id(execution_id: str) -> str:
    return hashlib.blake2b(execution_id.encode(), digest_size=16).hexdigest()


def envelopes(record: Record) -> Iterator[dict[str, Any]]:
    """Each event of the record with its full envelope, as JSON-ready values."""
    trace = trace_id(record.execution_id)
    for offset, event in enumerate(record.events):
        n = record.n + offset
        run_id, task_id = _run_id(record, event), _task_run_id(record, event)
        payload = msgspec.to_builtins(event)
        payload.pop("event_type")
        yield {
            "event_id": event_id(record, n),
            "event_type": event_type(event),
            "ts": record.ts,
            "execution_id": record.execution_id,
            "n": n,
            "source": "server" if record.lease is None else "worker",
            "entity_type": event.entity,
            "entity_id": task_id or run_id or record.execution_id,
            "status": status_of(event),
            "step_run_id": run_id,
            "task_run_id": task_id,
            "trace_id": trace,
            "parent_id": record.lease.run_id if record.lease else (str(record.as_of) if record.as_of else None),
            "payload": payload,
        }


def _run_id(record: Record, event: Event) -> str | None:
    if record.lease is not None:
        return record.lease.run_id
    return getattr(event, "run_id", None) or None


def _task_run_id(record: Record, event: Event) -> str | None:
    task = getattr(event, "task", "")
    if not task or record.lease is None:
        return None
    return f"{record.lease.run_id}{part_of(record.lease.index)}/{task}/{getattr(event, 'attempt', 1)}"
