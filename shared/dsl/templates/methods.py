"""The methods and functions an expression may call: a short list of harmless ones, each bounded before
it makes anything large."""

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2.sandbox import SandboxedFormatter
from jinja2.utils import Namespace

from shared.dsl.template_data import KEYS, METHODS, item, member, require, text
from shared.dsl.template_limits import MAX_TEXT, MAX_WIDTH, Limit, check_elements, check_text, weight
from shared.dsl.view import unwrap

_WIDTHS = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
_NUMBER = re.compile(r"\d+")


def check_width(width: str) -> None:
    if width == "*" or (width and (len(width) > 6 or int(width) > MAX_WIDTH)):
        raise Limit(f"a width in a format is given by `*` or too large (limit {MAX_WIDTH})")


def percent(form: str, values: Any) -> str:
    """`form % values`, refused when a width or the values could make the text too long."""
    for width, precision in _WIDTHS.findall(form):
        check_width(width)
        check_width(precision)
    values = tuple(map(unwrap, values)) if isinstance(values, tuple) else unwrap(values)
    check_text(form.count("%") * (weight(values, MAX_TEXT, 0) + MAX_WIDTH))
    return str(form % values)


def replace(value: str, old: str, new: str, count: int = -1) -> str:
    found = value.count(old) if count is None or count < 0 else min(value.count(old), count)
    check_text(len(value) + found * max(0, len(new) - len(old)))
    return value.replace(old, new, -1 if count is None else count)


def join(separator: str, values: Iterable[Any]) -> str:
    parts: list[str] = []
    length = 0
    for value in unwrap(require(values)):
        part = text(value)
        length += len(part) + len(separator)
        check_text(length)
        parts.append(part)
    return separator.join(parts)


class _Access:
    getattr = staticmethod(member)
    getitem = staticmethod(item)


class _Formatter(SandboxedFormatter):
    """`str.format` whose fields are looked up as in a template and whose output is bounded."""

    def __init__(self) -> None:
        self._env: Any = _Access()
        self._length = 0

    def convert_field(self, value: Any, conversion: Any) -> Any:
        weight(value, MAX_TEXT, 0)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        for width in _NUMBER.findall(format_spec):
            check_width(width)
        value = unwrap(require(value))
        made = format(value if isinstance(value, int | float) else text(value), format_spec)
        self._length += len(made)
        check_text(self._length)
        return made


def _format(value: str, *args: Any, **kwargs: Any) -> str:
    return _Formatter().vformat(value, args, kwargs)


def _padded(pad: Callable[..., str]) -> Callable[..., str]:
    def run(value: str, width: int, *fill: str) -> str:
        check_text(width)
        return pad(value, width, *fill)

    return run


def _searched(search: Callable[..., int]) -> Callable[..., int]:
    def run(values: Any, value: Any) -> int:
        if type(value) not in KEYS:
            raise TypeError(f"a {type(value).__name__} cannot be searched for")
        return search(values, value)

    return run


def _get(owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return owner.get(key, default) if type(key) in KEYS else default


def _pairs(owner: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(owner.items())


def bounded_range(*bounds: int) -> range:
    made = range(*bounds)
    check_elements(len(made))
    return made


def make_dict(pairs: Any = (), /, **more: Any) -> dict[Any, Any]:
    pairs = unwrap(pairs)
    entries = pairs.items() if isinstance(pairs, Mapping) else pairs
    made: dict[Any, Any] = {}
    for key, value in entries:
        made[check_key(key)] = value
        check_elements(len(made))
    return {**made, **more}


def check_key(key: Any) -> Any:
    """A key of a new mapping is a scalar."""
    key = require(unwrap(key))
    if type(key) not in KEYS:
        raise TypeError(f"a {type(key).__name__} cannot be a key")
    return key


FUNCTIONS: dict[str, Any] = {"range": bounded_range, "dict": make_dict, "namespace": Namespace}
_TEXT = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier"
    " islower isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex"
    " rpartition rsplit rstrip split splitlines startswith strip swapcase title upper"
)
METHODS[str] = {
    **{name: getattr(str, name) for name in _TEXT.split()},
    **{name: _padded(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    "format": _format,
    "join": join,
    "replace": replace,
}
METHODS[list] = {"count": _searched(list.count), "index": _searched(list.index), "copy": list.copy}
METHODS[tuple] = {"count": _searched(tuple.count), "index": _searched(tuple.index)}
METHODS[dict] = {
    "get": _get,
    "items": _pairs,
    "keys": lambda owner: list(owner),
    "values": lambda owner: list(owner.values()),
    "copy": dict.copy,
}
METHODS[datetime.datetime] = {"isoformat": datetime.datetime.isoformat, "date": datetime.datetime.date}
METHODS[datetime.date] = {"isoformat": datetime.date.isoformat}
