"""What a plain YAML scalar means. Only what JSON can hold: dates, sexagesimal numbers and numbers
with a leading zero stay text, because reading them as something else loses data."""

import math
import re
from typing import Any

from shared.errors import Signal

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_DIGITS = 400  # beyond it no number is in range

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}
_FALSE = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}
WORDS = _NULL | _TRUE | _FALSE  # the words that are no text
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
_BASED = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9_]*)?\.[0-9]+|(?:0|[1-9][0-9_]*)\.?)(?:[eE][-+]?[0-9]+)?\Z")
_UNREAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")

TAG = "tag:yaml.org,2002:"
TAGS = ("null", "bool", "int", "float", "str")


class OutOfRange(Signal, ValueError):
    """The number cannot be held."""


def resolve(text: str) -> Any:
    """The value of an untagged plain scalar. Raises OutOfRange."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] not in "+-.0123456789":
        return text
    return _number(text)


def tagged(tag: str, text: str) -> Any:
    """The value of a scalar with one of TAGS. Raises ValueError when the text does not fit the tag."""
    if tag == "str":
        return text
    value = resolve(text)
    fits = {"null": value is None, "bool": isinstance(value, bool), "int": type(value) is int,
            "float": type(value) in (int, float)}
    if not fits[tag]:
        raise ValueError(f"{text[:40]!r} is not a YAML {tag}")
    return float(value) if tag == "float" else value


def _number(text: str) -> Any:
    if len(text) < 19 and text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
        return int(text)  # what most numbers are
    if _UNREAL.match(text):
        raise OutOfRange(text)
    if _INT.match(text) or _BASED.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        value = float(text.replace("_", ""))
        if not math.isfinite(value):
            raise OutOfRange(text)
        return value
    return text


def _integer(text: str) -> Any:
    if len(text) > MAX_DIGITS:
        raise OutOfRange(text[:20])
    digits = text.replace("_", "")
    if digits.lstrip("+-").lower() in ("0x", "0o", "0b"):
        return text
    value = int(digits, 0)
    if not INT_MIN <= value <= INT_MAX:
        raise OutOfRange(text)
    return value
