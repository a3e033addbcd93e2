"""A record: the events of one decision, or of one lease's progress, as one message.

What the events share stands once on the record; `envelopes` gives each event the full envelope
of FX §9.1, FS §12.1 and DSL2 §9.3. `n` counts events without a gap: per execution for the router
and the scheduler, per lease for a worker (many leases of one execution are written at once). What comes
from outside (`control`) is one event per record and names its `source`: the same source again is the
same fact.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from shared.errors import Corrupt
from shared.events import model
from shared.events.index import part_of
from shared.events.model import Event

Writer = Literal["router", "scheduler", "worker", "iteration", "waiting", "control"]
Epoch = tuple[int, int]
VERSION = 1


class Lease(Struct, frozen=True, omit_defaults=True, gc=False):
    """Who writes: a worker's hold on a step-run, on one iteration of it (index ≥ 0), or on the claim of a frame of
    rows (`index.py`).

    The epoch is the command's broker timestamp and its delivery count: every later hold of the
    same run compares greater.
    """

    run_id: str
    step: str
    epoch: Epoch
    worker: str
    index: int = -1


class Record(Struct, frozen=True, omit_defaults=True, gc=False):
    """`as_of` is the last log sequence a decision had folded: with it the decision can be re-derived."""

    execution_id: str
    writer: Writer
    n: int
    ts: str
    events: tuple[Event, ...]
    as_of: int = 0
    lease: Lease | None = None
    source: str = ""
    v: int = VERSION


class _Version(Struct):
    v: int = VERSION


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_version = msgspec.json.Decoder(_Version)


def encode(record: Record) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> Record:
    """Unknown fields are ignored; an unknown event type, writer or version is Corrupt."""
    try:
        record = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Corrupt(f"a record that does not fit version {VERSION}: {error}{_newer(data)}") from None
    except msgspec.DecodeError as error:
        raise Corrupt(f"a record that is not JSON: {error}") from None
    if record.v > VERSION:
        raise Corrupt(f"a record of version {record.v}; this build reads up to {VERSION}: upgrade the reader")
    return record


def _newer(data: bytes) -> str:
    try:
        v = _version.decode(data).v
    except msgspec.MsgspecError:
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
            "status": _status(event),
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


def _status(event: Event) -> str:
    match event:
        case model.PlaybookProcessed(status="failed") | model.WorkflowFinished(status="failed"):
            return "error"
        case model.PlaybookProcessed(status="cancelled") | model.WorkflowFinished(status="cancelled"):
            return "skipped"
        case model.RequestEvaluated(error=error):
            return "error" if error else "success"
        case model.TaskDone(outcome=outcome):
            return "success" if outcome.status == "ok" else "error"
    return event.state
