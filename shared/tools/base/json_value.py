"""What JSON cannot hold as it is, though an encoder accepts it: it writes infinity and NaN as null, and integers of any
length, which few readers keep."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
PLACE_LIMIT = 200                        # characters of a place
_DIGITS = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))  # every digit is a zero, all else a blank
_LONG = b"0" * 19
_strict = json.JSONEncoder(check_circular=False, allow_nan=False)  # slower, but it knows
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def lost(value: Any, encoded: bytes) -> str:
    """The first place whose value is another in its JSON, and why; empty: there is none."""
    is_long = _LONG in encoded.translate(_DIGITS)  # twenty times as fast as an expression, which counts with megabytes
    if not is_long and b"null" not in encoded:
        return ""
    plain = msgspec.to_builtins(value)
    if not is_long and _is_finite(plain):
        return ""
    for place, found in _numbers("result", plain):
        if isinstance(found, float):
            if not math.isfinite(found):
                return f"{_short(place)} is {found}"
        elif not INT_MIN <= found <= INT_MAX:
            return f"{_short(place)} is an integer of over 64 bits"
    return ""


def _is_finite(plain: Any) -> bool:
    try:
        _strict.encode(plain)
    except (ValueError, RecursionError):
        return False
    return True


def _numbers(place: str, value: Any) -> Iterator[tuple[str, int | float]]:
    """Without recursion: a value may be as deep as the encoder goes. In the order of the value."""
    open_: list[Iterator[tuple[str, Any]]] = [iter([(place, value)])]
    while open_:
        for place, found in open_[-1]:
            if isinstance(found, dict):
                open_.append(_members(place, found))
                break
            if isinstance(found, (list, tuple)):
                open_.append(_elements(place, found))
                break
            if isinstance(found, (int, float)):
                yield place, found
        else:
            open_.pop()


def _members(place: str, value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, found in value.items():
        name = str(key)
        yield f"{place}.{name}" if _NAME.match(name) else f"{place}[{name!r}]", found


def _elements(place: str, value: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for index, found in enumerate(value):
        yield f"{place}[{index}]", found


def _short(place: str) -> str:
    return place if len(place) <= PLACE_LIMIT else f"{place[:PLACE_LIMIT]}…"
