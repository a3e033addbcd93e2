"""What follows from the end of an execution: the request for the playbook that its policy names. Pure.

An execution that was started by an end tells nobody of its own: a playbook that reports failures and fails would
otherwise report itself for ever."""

from typing import Any

import msgspec

from shared.dsl.model.plan import Notify
from shared.dsl.templates import evaluate as template
from shared.dsl.templates.budget import one_decision
from shared.errors import Corrupt
from shared.events.request import Request, decode_derived, derive_id

BY_END = "end of "  # how `by` of such an execution begins


def is_by_end(by: str) -> bool:
    return by.startswith(BY_END)


@one_decision
def request(notify: Notify, end: dict[str, Any]) -> Request:
    """One per execution, however often it is asked for. Raises TemplateError or Corrupt if it cannot be made."""
    payload = template.evaluate(notify.payload, {"end": end})
    if not isinstance(payload, dict):
        raise Corrupt("payload is not a mapping of names to values")
    ended = str(end["execution_id"])
    asked = Request(
        notify.path, notify.version, payload, derive_id("notify", ended), by=f"{BY_END}{ended}")
    try:
        decode_derived(msgspec.json.encode(asked))  # the router would reject it
    except (TypeError, ValueError, RecursionError) as error:
        raise Corrupt(f"no request can be written of it: {error}") from None
    return asked
