"""Values for PostgreSQL parameters: templates give strings, numbers, lists and mappings; the server names
the type it wants, and asyncpg insists on it."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from shared.errors import ToolError
from shared.tools.base.guard import BadCall
from shared.tools.sql.text import as_text

TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


def convert(values: list[Any], types: tuple[str, ...], said: tuple[str, ...] = ()) -> list[Any]:
    """`said` is how the author wrote each of the values, where that is known."""
    if len(values) != len(types):
        raise BadCall(f"the statement takes {len(types)} params, {len(values)} are given")
    return [_convert(value, kind, i, said) for i, (value, kind) in enumerate(zip(values, types, strict=True), 1)]


def _convert(value: Any, kind: str, number: int, said: tuple[str, ...]) -> Any:
    if value is None:
        return None
    if kind.endswith("[]"):
        if not isinstance(value, (list, tuple)):
            raise WrongType(f"{_where(number, said)} must be a list, {kind}, and is a {type(value).__name__}")
        return [_convert(item, kind[:-2] if not isinstance(item, list) else kind, number, said) for item in value]
    try:
        return _CONVERSIONS.get(kind, _as_given)(value)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        several = ": compare with a list by = ANY({{ … }})" if isinstance(value, str) and "," in value else ""
        wrong = f"{_where(number, said)} must be {kind} and is a {type(value).__name__} that is none"
        raise WrongType(wrong + several) from None


def _where(number: int, said: tuple[str, ...]) -> str:
    """A parameter as its author knows it."""
    known = said[number - 1] if number <= len(said) else ""
    return f"the value of `{known}`" if known else f"the value of the {{{{ … }}}} or param ${number}"


class WrongType(ToolError):
    """A value that is not of the parameter's type; the message does not show it."""


def json_text(value: Any) -> str:
    """A string is used as JSON text, as the server itself does."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _int(value: Any) -> int:
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError
    return number


def _numeric(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _bool(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError
    return word in TRUE


def _datetime(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())


def _timestamptz(value: Any) -> datetime:
    """Without a zone it is UTC."""
    moment = _datetime(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _timestamp(value: Any) -> datetime:
    moment = _datetime(value)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _date(value: Any) -> date:
    return value if type(value) is date else _datetime(value).date()


def _time(value: Any) -> time:
    return value if isinstance(value, time) else time.fromisoformat(value.strip())


def _interval(value: Any) -> str:
    """A number is seconds; text is left to the server."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    return f"{value} seconds" if isinstance(value, (int, float)) else str(value)


def _bytes(value: Any) -> bytes:
    """base64, as results give it, or the server's own hex (`\\x…`)."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes.fromhex(value[2:]) if value.startswith("\\x") else base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError from None


def _as_given(value: Any) -> Any:
    return json_text(value) if isinstance(value, Mapping) else value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "citext", "unknown", "xml"), as_text),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _int),
    **dict.fromkeys(("float4", "float8"), float),
    **dict.fromkeys(("json", "jsonb"), json_text),
    **dict.fromkeys(("time", "timetz"), _time),
    "numeric": _numeric,
    "bool": _bool,
    "timestamptz": _timestamptz,
    "timestamp": _timestamp,
    "date": _date,
    "interval": _interval,
    "uuid": str,
    "bytea": _bytes,
}
