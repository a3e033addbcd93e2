"""How long things are kept, as people write it: `results=30d,read_model=90d,requests=never`.

`results` and `read_model` count from the end of an execution, and a projector removes them; `requests` and
`dead_letters` count from when they were written, and the broker lets them go: they are the ages of their streams.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from shared.bus import topology
from shared.dsl.model.durations import seconds_of
from shared.errors import NoetlError

NEVER = "never"
EXAMPLE = "results=30d,read_model=90d"
LEAST = {"results": 60.0, "read_model": 60.0, "requests": 3600.0, "dead_letters": 60.0}
STREAMS = {"requests": topology.REQUESTS, "dead_letters": topology.DEAD}
DAY_S, HOUR_S, MINUTE_S = 86_400, 3600, 60
MOST_S = 36_500.0 * DAY_S
MARGIN = 0.1  # of an age
MIN_MARGIN_S, MAX_MARGIN_S = 10.0, 3600.0
_PART = re.compile(r"([a-z_]+)=([0-9a-z.]+)")


class BadRetention(NoetlError):
    """What was asked for cannot be kept to; the message says why."""


class Retention(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds; 0 is for ever."""

    results: float = 0.0
    read_model: float = 0.0
    requests: float = topology.REQUESTS_KEPT_S
    dead_letters: float = topology.LETTERS_KEPT_S

    def ages(self) -> dict[str, float]:
        """Of streams, by name."""
        return {stream: getattr(self, name) for name, stream in STREAMS.items()}


def margin(age_s: float) -> float:
    """What results are kept beyond their age. A rerun is refused by the age alone: the time between is what the read
    model may be behind, and a router may take between its look and its record."""
    return min(MAX_MARGIN_S, max(MIN_MARGIN_S, age_s * MARGIN))


def named(parts: Iterable[str]) -> dict[str, float]:
    """`results=30d`, `requests=never`, …. Raises BadRetention."""
    given: dict[str, float] = {}
    for part in parts:
        found = _PART.fullmatch(part.strip())
        if found is None or found[1] not in LEAST:
            raise BadRetention(f"{part[:80]!r} is not one of {', '.join(f'{name}=TIME' for name in LEAST)}")
        name, seconds = found[1], 0.0 if found[2] == NEVER else seconds_of(found[2])
        if seconds is None or (not seconds and found[2] != NEVER):
            raise BadRetention(f"{part[:80]!r}: give a time such as 30d, 12h or 90m, or {NEVER}")
        if name in given:
            raise BadRetention(f"{name} is there twice")
        if seconds and seconds < LEAST[name]:
            raise BadRetention(f"{name}={found[2]}: at least {shown(LEAST[name])}")
        if seconds > MOST_S:
            raise BadRetention(f"{name}={found[2]}: at most {shown(MOST_S)}, or {NEVER}")
        given[name] = seconds
    return given


def parsed(parts: Iterable[str], base: Retention | None = None) -> Retention:
    """What is not named is as in `base`. Raises BadRetention."""
    return checked(msgspec.structs.replace(base or Retention(), **named(parts)))


def checked(kept: Retention) -> Retention:
    if kept.read_model and not 0 < kept.results <= kept.read_model:
        raise BadRetention(
            f"results={shown(kept.results)} is longer than read_model={shown(kept.read_model)}: rows of an execution "
            "do not go before its results do; give results a time that is no longer"
        )
    return kept


def shown(seconds: float) -> str:
    """As it is written."""
    for unit, size in (("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s" if seconds else NEVER
