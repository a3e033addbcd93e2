"""What a failed call left behind for people: the traceback of a program, the beginning of an answer's body, what was
printed before the end. Pure. The log has no secrets: its worker took them out before it wrote."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.engine.values.printed import printed, tail
from shared.engine.values.stored_values import Values, value_of
from shared.events import model as ev
from shared.events.outcome import Outcome
from shared.events.record import Record
from shared.events.run_index import is_iteration

MAX_BODY = 1024      # characters of an answer, the first ones
MAX_PRINTED = 2048   # characters of what was printed, the last ones
MAX_KEPT = 200       # runs and their tasks


class Failed(Struct, frozen=True):
    """A task that ended its run, or its iteration, with an error."""

    step: str
    run_id: str
    index: int
    event: ev.TaskDone


class Failures:
    """Give it the records that count, in order. Of a run, the first iteration in which a task failed is kept: it is
    what a loop fails with."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Failed] = {}

    def take(self, record: Record) -> None:
        lease = record.lease
        if lease is None:
            return
        for event in record.events:
            if isinstance(event, ev.TaskDone) and event.do == "fail":
                key = lease.run_id, event.task
                if key not in self._kept or self._kept[key].index == lease.index:
                    self._kept[key] = Failed(lease.step, lease.run_id, lease.index, event)
                while len(self._kept) > MAX_KEPT:
                    self._kept.pop(next(iter(self._kept)))

    def behind(self, error: Mapping[str, Any] | None) -> Failed | None:
        """The call that the error of a step or an execution comes from."""
        if not error or not error.get("step"):
            return None
        found = [each for each in self._kept.values() if each.step == error["step"]
                 and error.get("task") in (None, "", each.event.task)]
        same = [each for each in found if (each.event.outcome.error or {}).get("message") == error.get("message")]
        return (same or found)[-1] if found else None


def shown(failed: Failed | None, values: Values | None = None) -> dict[str, Any] | None:
    """As commands print it: where it was, and what is known of it."""
    if failed is None:
        return None
    return {
        "step": failed.step, "task": failed.event.task, "attempt": failed.event.attempt,
        "iteration": failed.index if is_iteration(failed.index) else None, **evidence(failed.event.outcome, values),
    }


def evidence(outcome: Outcome, values: Values | None = None) -> dict[str, str]:
    """By name, without what there is none of. A result outside the log is asked for by raising Missing; without
    `values`, it is left out."""
    found = {"detail": (outcome.error or {}).get("detail"), "traceback": (outcome.py or {}).get("traceback")}
    result = outcome.result
    if outcome.ref is not None and values is not None:
        result = value_of(outcome.ref, values)
    if outcome.shape == "http" and isinstance(result, dict):
        found["body"] = _beginning(result.get("data"))
    found |= {stream: tail(text, MAX_PRINTED) for stream, text in printed(outcome, result)}
    return {name: text.rstrip() for name, text in found.items() if isinstance(text, str) and text.strip()}


def _beginning(body: Any) -> str:
    if body is None:
        return ""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text if len(text) <= MAX_BODY else f"{text[:MAX_BODY]}… ({len(text)} characters)"
