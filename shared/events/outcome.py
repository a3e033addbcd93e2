"""What a tool returned and what a step leaves behind: the outcome envelope, results and references."""

from typing import Any, Literal

from msgspec import Struct

Shape = Literal["value", "http", "sql", "loop"]


class Ref(Struct, frozen=True, gc=False):
    """A value too large for the log: where it lies and how to check it (V10 §10)."""

    store: str
    key: str
    checksum: str
    size: int
    schema_hint: str = ""


class Result(Struct, frozen=True, omit_defaults=True, gc=False):
    """A step's or task's result; `shape` tells templates where its payload is, `fields` are the parts of it that
    its task selected."""

    value: Any = None
    shape: Shape = "value"
    ref: Ref | None = None
    fields: dict[str, Any] = {}


class Outcome(Struct, frozen=True, omit_defaults=True, gc=False):
    """Exactly one per tool invocation (DSL2 §5.3)."""

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


def ok(result: Any = None, *, shape: Shape = "value", **fields: Any) -> Outcome:
    return Outcome(status="ok", result=result, shape=shape, **fields)


def failed(kind: str, message: str, *, retryable: bool = False, **fields: Any) -> Outcome:
    """An error outcome; PIPE: `error` has `kind` and should have `retryable`."""
    details = fields.pop("details", {})
    error = {"kind": kind, "message": message, "retryable": retryable, **details}
    return Outcome(status="error", error=error, **fields)
