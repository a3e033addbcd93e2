"""What a trigger makes of a message: nothing, a request, or a reason why it cannot. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from shared.dsl.documents.triggers import Trigger, is_of_ends
from shared.dsl.templates import evaluate as template
from shared.dsl.templates.budget import one_decision
from shared.engine.automation.notify import BY_END, is_by_end
from shared.errors import Corrupt, TemplateError
from shared.events.request import Request, decode_derived, derive_id

MAX_KEY = 1024


class Arrived(Struct, frozen=True):
    """`source` names the message itself: the same message again has the same one."""

    subject: str
    data: bytes
    headers: dict[str, str]
    source: tuple[str | int, ...]


class Broken(Struct, frozen=True):
    """The message can start no execution, now or later."""

    reason: str


@one_decision
def react(trigger: Trigger, arrived: Arrived) -> Request | Broken | None:
    """None: the filter does not want it."""
    try:
        scope = {"message": view(arrived)}
        if is_of_ends(arrived.subject) and _is_echo(scope["message"]["data"]):
            return None
        if not template.truth(trigger.filter, scope):
            return None
        payload = template.evaluate(trigger.mapping, scope)
        if not isinstance(payload, dict):
            return Broken(f"mapping gives {type(payload).__name__}, not a mapping of names to values")
        playbook = trigger.playbook
        execution_id = derive_id("trigger", trigger.name, *_identity(trigger, arrived, scope))
        by = f"trigger {trigger.name}"
        if is_of_ends(arrived.subject):
            by = f"{BY_END}{arrived.subject.split('.')[3]}, {by}"
        request = Request(playbook.path, playbook.version, payload, execution_id, labels=trigger.labels, by=by)
        decode_derived(msgspec.json.encode(request))  # the router would reject a larger one
    except (TemplateError, Corrupt) as error:
        return Broken(str(error))
    except RecursionError:
        return Broken("the message is nested too deeply")
    except (TypeError, ValueError) as error:  # a number or text that JSON does not have
        return Broken(f"no request can be written of it: {error}")
    return request


def _is_echo(end: Any) -> bool:
    """The end of what an end has started: it would start something again, for ever."""
    return isinstance(end, dict) and is_by_end(str(end.get("by", "")))


def view(arrived: Arrived) -> dict[str, Any]:
    """The message as templates see it: `data` is JSON where it parses, otherwise text."""
    try:
        text = arrived.data.decode()
    except UnicodeDecodeError:
        raise Corrupt("the message is not UTF-8 text") from None
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError:
        data = text
    return {"subject": arrived.subject, "data": data, "headers": arrived.headers}


def _identity(trigger: Trigger, arrived: Arrived, scope: dict[str, Any]) -> tuple[str | int, ...]:
    """The dedupe key, or what the message itself is."""
    if not trigger.dedupe:
        return ("message", *arrived.source)
    key = template.evaluate(trigger.dedupe, scope)
    if isinstance(key, bool) or not isinstance(key, str | int | float) or not 0 < len(str(key)) <= MAX_KEY:
        raise Corrupt(f"dedupe gives no text or number of at most {MAX_KEY} characters")
    return ("key", str(key))
