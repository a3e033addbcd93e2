"""`limits` of a step's or the executor's policy: results kept by reference, and how many runs may hold a place of a
key at the same time or begin within a time."""

import re
from collections.abc import Mapping
from typing import Any

from shared.dsl.model.durations import seconds_of
from shared.dsl.model.plan import Limit
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import check_templates
from shared.dsl.source.nodes import Path
from shared.events.fields import MAX_PRIORITY

MAX_PAYLOAD = 1024 * 1024
MAX_PLACES = 1000
MAX_RATE = 1000
MAX_PERIOD_S = 86_400.0
MAX_KEY = 256
KEYS = ("max_payload_bytes", "key", "max", "rate")
_RATE = re.compile(r"(\d{1,7})\s*/\s*(\d*\.?\d*(?:ms|s|m|h|d))\Z")
_RATE_FIX = 'write rate: "10/s", "100/m" or "5/30s"'


def read_payload_limit(reader: Reader, limits: Mapping[str, Any], path: Path) -> int | None:
    if "max_payload_bytes" not in limits:
        return None
    return reader.whole(limits["max_payload_bytes"], (*path, "max_payload_bytes"), 1, MAX_PAYLOAD)


def read_limit(reader: Reader, limits: Mapping[str, Any], path: Path, own_key: str) -> Limit | None:
    """`own_key` is the key of a limit that names none."""
    if "max" not in limits and "rate" not in limits:
        if "key" in limits:
            reader.key((*path, "key"), "DSL202", "a limit has a key and neither max nor rate",
                       "add max: <how many at the same time> or rate: \"10/s\"")
        return None
    most = reader.whole(limits["max"], (*path, "max"), 1, MAX_PLACES) if "max" in limits else 0
    count, period = _rate(reader, limits["rate"], (*path, "rate")) if "rate" in limits else (0, 0.0)
    return Limit(_key(reader, limits, path, own_key), most, count, period)


def _key(reader: Reader, limits: Mapping[str, Any], path: Path, own_key: str) -> str:
    if "key" not in limits:
        return own_key
    at = (*path, "key")
    key = reader.text(limits["key"], at, 'write key: "orders/{{ workload.tenant }}"', most=MAX_KEY)
    check_templates(reader, key, at, secrets=False)
    return key


def _rate(reader: Reader, value: Any, path: Path) -> tuple[int, float]:
    found = _RATE.match(value) if isinstance(value, str) else None
    if found is None:
        reader.value(path, "DSL203", f"rate cannot be {short(value)}", _RATE_FIX)
        return 1, 1.0
    count, period = int(found[1]), seconds_of(found[2] if found[2][0].isdigit() else f"1{found[2]}")
    if not 1 <= count <= MAX_RATE or period is None or not 0.1 <= period <= MAX_PERIOD_S:
        reader.value(path, "DSL203", f"rate cannot be {short(value)}",
                     f"from 1 to {MAX_RATE:,} in 100 ms to a day: {_RATE_FIX}")
        return 1, 1.0
    return count, period


def read_priority(reader: Reader, policy: Mapping[str, Any], path: Path) -> int | None:
    if "priority" not in policy:
        return None
    return reader.whole(policy["priority"], (*path, "priority"), 0, MAX_PRIORITY)
