"""What a tool returned and what a step leaves behind: the outcome envelope, results and references."""

import hashlib
from typing import Any, Literal

from msgspec import Struct

from shared.events.bounds import Checksum, Name, ResultKey, Size, Text
from shared.events.failure import Failure

# Of a secret: a handle, `{secret, field}`, and no value. Of an envelope: what a program put around its payload.
Shape = Literal["value", "http", "sql", "loop", "secret", "envelope"]
ENVELOPE = frozenset({"status", "data", "error", "meta", "message"})  # FS §8.3, and what programs add to it


class Ref(Struct, frozen=True, gc=False):
    """A value too large for the log: where it is stored and how to check it (V10 §10)."""

    store: Name
    key: ResultKey
    checksum: Checksum
    size: Size
    schema_hint: Text = ""


class Result(Struct, frozen=True, omit_defaults=True, gc=False):
    """A step's or task's result; `shape` tells templates where its payload is, `fields` are the parts of it that
    its task selected, `into` is the name that it was collected under."""

    value: Any = None
    shape: Shape = "value"
    ref: Ref | None = None
    fields: dict[str, Any] = {}
    into: Text = ""


class Outcome(Struct, frozen=True, omit_defaults=True, gc=False):
    """Exactly one per tool invocation (DSL2 §5.3). `call` is the mark of the call that it answers, from a tool whose
    answer names it."""

    status: Literal["ok", "error"]
    result: Any = None
    shape: Shape = "value"
    ref: Ref | None = None
    error: dict[str, Any] | None = None
    meta: dict[str, Any] = {}
    http: dict[str, Any] | None = None
    pg: dict[str, Any] | None = None
    py: dict[str, Any] | None = None
    fields: dict[str, Any] = {}
    call: Text = ""
    into: Text = ""


def mark(key: str) -> str:
    """A call's idempotency key in few bytes: enough to tell the answer of one call from that of another."""
    return hashlib.blake2s(key.encode(), digest_size=4).hexdigest()


def ok(result: Any = None, *, shape: Shape = "value", **fields: Any) -> Outcome:
    return Outcome(status="ok", result=result, shape=shape, **fields)


def failed(kind: str, message: str, *, retryable: bool = False, **fields: Any) -> Outcome:
    """An error outcome; PIPE: `error` has `kind` and should have `retryable`."""
    failure = Failure(kind, message, retryable, details=fields.pop("details", {}))
    return Outcome(status="error", error=failure.error(), **fields)


def shape_of(value: Any) -> Shape:
    """That of what a program gives: it may be an envelope of its own around the payload."""
    if type(value) is not dict or not {"status", "data"} <= value.keys() <= ENVELOPE:
        return "value"
    return "envelope" if type(value["data"]) is dict else "value"
