"""`kind: wait`: continues later. It holds no slot meanwhile, and a restart changes nothing."""

from datetime import UTC, datetime
from typing import Any

from shared.dsl.model.durations import seconds_of
from shared.events.stamp import stamp
from shared.tools.base.contract import Call, KeySpec, ToolSpec, Waits
from shared.tools.base.guard import BadCall, one_of, refusal
from shared.tools.flow.answering import waiting

MAX_WAIT_S = 366 * 86_400.0

SPEC = ToolSpec(
    kind="wait",
    doc="Waits without a worker, for a time or until one. Result: {until}.",
    keys={
        "for": KeySpec("Seconds, or a text such as 90s, 5m, 1h30m, 2d; at most 366 days.",
                       wrong=refusal(lambda value: duration(value))),
        "until": KeySpec("An RFC 3339 time with its zone; one that is over already does not wait.",
                         wrong=refusal(lambda value: _time(value))),
    },
    waits=True,
)


@waiting
def answer(call: Call) -> Waits:
    given = one_of(call.config, "for", "until")
    if given is None:
        raise BadCall("kind wait needs `for` or `until`")
    name, value = given
    return Waits(for_s=duration(value)) if name == "for" else Waits(until=_time(value))


def duration(value: Any) -> float:
    """Seconds: a number, or numbers with units one after the other."""
    if isinstance(value, str):
        try:
            found = seconds_of(value)
            value = float(value) if found is None else found
        except ValueError:
            raise BadCall(f"for: {value!r} is not a time such as 90s, 5m or 1h30m") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_WAIT_S:
        raise BadCall(f"for: {value!r} is not a number of seconds up to {MAX_WAIT_S:.0f}")
    return float(value)


def _time(value: Any) -> str:
    try:
        when = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise BadCall(f"until: {value!r} is not an RFC 3339 time") from None
    if when.tzinfo is None:
        raise BadCall(f"until: {value!r} has no zone: add Z or an offset such as +02:00")
    return stamp(when.astimezone(UTC).timestamp())
