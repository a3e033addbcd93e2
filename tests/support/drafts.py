"""The draft at which a decision of the router arrives, beside what the fold makes of its record: they must be equal,
also when the record is read from the log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import msgspec

from services.router import requests
from shared.engine.routing import decide as routing
from shared.engine.routing import state as execution
from shared.engine.routing.state import Execution, evolve
from shared.events.record import Kept, Record, decode, encode, subject_of

_accepted = execution.accepted


def accepted(before: Execution, draft: Execution, record: Record, seq: int) -> tuple[Execution, str]:
    """The draft as the state, and how it differs from a fold on the state before; empty if it does not."""
    read = decode(Kept(subject_of(record, 1), encode(record)), 1)
    folded, of_log = evolve(before, record, seq), evolve(before, read, seq)
    state = _accepted(draft, record, seq)
    if state != folded:
        return state, f"{record.execution_id} {record.n}: the draft is {state}, the fold gives {folded}"
    if msgspec.to_builtins(state) != msgspec.to_builtins(of_log):
        return state, f"{record.execution_id} {record.n}: the draft is {state}, the log gives {of_log}"
    return state, ""


@contextmanager
def compared() -> Iterator[list[str]]:
    """Routers compare as they go; what is found wrong is in the list."""
    wrong: list[str] = []
    made: dict[int, tuple[Execution, Execution]] = {}  # by the draft, which is kept so that no other has its number

    def noted(decision: Callable[..., routing.Decision], before: Callable[..., Execution]) -> Callable[..., Any]:
        @wraps(decision)
        def note(*args: Any, **named: Any) -> routing.Decision:
            events, draft = decision(*args, **named)
            made[id(draft)] = before(*args), draft
            return events, draft

        return note

    def compare(draft: Execution, record: Record, seq: int) -> Execution:
        state, found = accepted(made.pop(id(draft))[0], draft, record, seq)
        wrong.extend([found] if found else [])
        return state

    with (
        mock.patch.object(routing, "decided", noted(routing.decided, lambda _plan, state, *_: state)),
        mock.patch.object(routing, "begun", noted(routing.begun, lambda execution_id, *_: Execution(execution_id))),
        mock.patch.object(execution, "accepted", compare),
        mock.patch.object(requests, "accepted", compare),
    ):
        yield wrong
