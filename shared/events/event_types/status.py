"""The `status` of an event's envelope (FX §9.1, FS §12.1), as data: envelopes are made of it here, and in the read
model, whose view `noetl.event` finds the same in a table.

An event has the `state` of its type. Some types have another status by what they hold at a place.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from shared.events.event_types.lease import TaskDone
from shared.events.event_types.router import PlaybookProcessed, RequestEvaluated, WorkflowFinished
from shared.events.fields import Base

ANYTHING = "*"  # that is no string, and not nothing


class Variants(Struct, frozen=True):
    """The status by the value at `path`; with any other value it is the state of the type."""

    path: tuple[str, ...]
    statuses: Mapping[str, str]


_ENDING = Variants(("status",), {"failed": "error", "cancelled": "skipped"})
VARIANTS: Mapping[type[Base], Variants] = MappingProxyType({
    PlaybookProcessed: _ENDING,
    WorkflowFinished: _ENDING,
    RequestEvaluated: Variants(("error",), {ANYTHING: "error"}),
    TaskDone: Variants(("outcome", "status"), {"error": "error"}),
})


def status_of(event: Base) -> str:
    variants = VARIANTS.get(type(event))
    if variants is None:
        return event.state
    value: Any = event
    for name in variants.path:
        value = getattr(value, name)
    found = value if isinstance(value, str) else ANYTHING if value else ""
    return variants.statuses.get(found, event.state)
