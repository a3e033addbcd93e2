"""The end of an execution as others hear of it, from the first and the last decision on it."""

from typing import Any

from msgspec import Struct

from shared.answers.history.summary import loop_results
from shared.events import model as ev
from shared.events.fields import Ending
from shared.events.outcome import Ref, Result
from shared.events.record import Record


class End(Struct, frozen=True, kw_only=True):
    """`result` is the value; `reference` says where it is stored when it is too large for the log. `parent` is the
    execution that started it, `by` who asked for it."""

    execution_id: str
    path: str
    version: str
    status: Ending
    started_at: str
    ended_at: str
    result: Any = None
    reference: Ref | None = None
    error: dict[str, Any] | None = None
    labels: dict[str, str] = {}
    by: str = ""
    parent: str = ""


def processed(record: Record) -> ev.PlaybookProcessed | None:
    """With it nothing more is decided."""
    for event in reversed(record.events):
        if isinstance(event, ev.PlaybookProcessed):
            return event
    return None


def digest(first: Record) -> str:
    """The name of the plan it went by; empty if it was refused."""
    for event in first.events:
        if isinstance(event, ev.RequestEvaluated):
            return event.digest
    return ""


def end_of(first: Record, last: Record) -> End | None:
    """None: these are not the beginning and the end of an execution."""
    asked, ended = first.events[0] if first.events else None, processed(last)
    if not isinstance(asked, ev.ExecutionRequested) or ended is None:
        return None
    result = ended.result or Result()
    return End(
        execution_id=last.execution_id, path=asked.path, version=asked.version, status=ended.status,
        started_at=first.ts, ended_at=last.ts, result=loop_results(result) if result.shape == "loop" else result.value,
        reference=result.ref, error=ended.error, labels=asked.labels, by=asked.by,
        parent=asked.parent.execution_id if asked.parent is not None else "")
