"""The boundary event as arcs see it: `event.name`, `event.payload`, `event.result`, `event.error`."""

from typing import Any

from shared.dsl.model.texts import Alias
from shared.dsl.templates.result_view import view
from shared.engine.routing.state import End
from shared.engine.values.stored_values import Values, resolve
from shared.events.aliases import BOUNDARY, FORMER


class BareEventName(str):
    """Equal to every name of the same boundary, formal ones too. As in the third edition of the language, without
    methods."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other in BOUNDARY[str.__str__(self)] if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class EventName(BareEventName, Alias):
    """The same, with the methods of a text."""

    __slots__ = ()


class FormerEventName(BareEventName):
    """As before the third edition of the language, when leaving a step was its success."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other in FORMER[str.__str__(self)] if isinstance(other, str) else NotImplemented

    __hash__ = str.__hash__


def event_view(end: End, values: Values, *, former: bool = False, bare: bool = False) -> dict[str, Any]:
    result = view(resolve(end.result, values))
    payload: dict[str, Any] = {"result": result, "error": end.error}
    if end.event == "loop.done":
        payload |= {"count": end.count, "failed": end.failed, "failures": end.failures,
                    "stopped": result.own.get("stopped", False)}
    name = FormerEventName if former else BareEventName if bare else EventName
    return {"name": name(end.event), "result": result, "error": end.error, "payload": payload}
