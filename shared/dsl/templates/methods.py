"""The methods and functions an expression may call: a short list of harmless ones, each bounded before
it makes anything large. What they cost beyond `template_costs` they pay themselves."""

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2.utils import Namespace

from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import SEARCHED
from shared.dsl.templates.formats import format_text, percent
from shared.dsl.templates.limits import MAX_ELEMENTS, MAX_TEXT, TOO_LONG, Context, check_elements, check_text
from shared.dsl.templates.result_view import unwrap
from shared.dsl.templates.values import KEYS, METHODS, require, written

__all__ = ["FUNCTIONS", "METHODS", "bounded_range", "check_key", "join", "make_dict", "percent", "replace", "stripped"]
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_PIECE = 2  # units of a text that is cut off another, or put into one


def replace(context: Context, value: str, old: str, new: str, count: int = -1) -> str:
    found = value.count(old) if count is None or count < 0 else min(value.count(old), count)
    check_text(len(value) + found * max(0, len(new) - len(old)))
    context.spend(_PIECE * found)
    return value.replace(old, new, -1 if count is None else count)


def join(context: Context, separator: str, values: Iterable[Any]) -> str:
    parts: list[str] = []
    length = 0
    for value in unwrap(require(values)):
        context.left -= 3 * _PIECE
        part = written(context, value)
        length += len(part) + len(separator)
        if length > MAX_TEXT:
            raise Limit(TOO_LONG)
        parts.append(part)
    return separator.join(parts)


def _split(split: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def run(context: Context, value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        _pay_search(context, value, sep)
        most = MAX_ELEMENTS + 1
        made = split(value, sep, most if maxsplit < 0 else min(maxsplit, most))
        context.spend(_PIECE * len(made))
        return made

    return run


def _lines(context: Context, value: str, keepends: bool = False) -> list[str]:
    count = sum(map(value.count, _LINE_ENDS))
    check_elements(count)
    context.spend(_PIECE * count)
    return value.splitlines(keepends)


def _backwards(search: Callable[..., Any]) -> Callable[..., Any]:
    """A search from the end compares the whole of what it looks for at every place, in the worst case."""

    def run(context: Context, value: str, sought: str, *bounds: int) -> Any:
        _pay_search(context, value, sought)
        return search(value, sought, *bounds)

    return run


def _pay_search(context: Context, value: str, sought: Any) -> None:
    if isinstance(sought, str):
        context.spend(len(value) * min(len(value), len(sought)) >> SEARCHED)


def stripped(strip: Callable[..., str]) -> Callable[..., str]:
    """Every character is looked for among those to strip."""

    def run(context: Context, value: str, chars: str | None = None) -> str:
        if chars is not None:
            context.spend(len(value) * len(chars) >> SEARCHED)
        return strip(value, chars)

    return run


def _padded(pad: Callable[..., str]) -> Callable[..., str]:
    def run(_: Context, value: str, width: int, *fill: str) -> str:
        check_text(width)
        return pad(value, width, *fill)

    return run


def _searched(search: Callable[..., int]) -> Callable[..., int]:
    def run(context: Context, values: Any, value: Any) -> int:
        if type(value) not in KEYS:
            raise TypeError(f"a {type(value).__name__} cannot be searched for")
        if isinstance(value, str):
            context.spend(len(values) * len(value) >> SEARCHED)
        return search(values, value)

    return run


def _get(_: Context, owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return owner.get(key, default) if type(key) in KEYS else default


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


def _simple(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that costs what its table says."""
    return lambda _, owner, *args, **kwargs: function(owner, *args, **kwargs)


FUNCTIONS: dict[str, Any] = {"range": bounded_range, "dict": make_dict, "namespace": Namespace}
_TEXT = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier"
    " islower isnumeric isspace istitle isupper lower partition removeprefix removesuffix startswith swapcase title"
    " upper"
)
METHODS[str] = {
    **{name: _simple(getattr(str, name)) for name in _TEXT.split()},
    **{name: _backwards(getattr(str, name)) for name in ("rfind", "rindex", "rpartition")},
    **{name: stripped(getattr(str, name)) for name in ("lstrip", "rstrip", "strip")},
    **{name: _padded(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    **{name: _split(getattr(str, name)) for name in ("rsplit", "split")},
    "splitlines": _lines,
    "format": format_text,
    "join": join,
    "replace": replace,
}
METHODS[list] = {"count": _searched(list.count), "index": _searched(list.index), "copy": _simple(list.copy)}
METHODS[tuple] = {"count": _searched(tuple.count), "index": _searched(tuple.index)}
METHODS[dict] = {
    "get": _get,
    "items": lambda _, owner: list(owner.items()),
    "keys": lambda _, owner: list(owner),
    "values": lambda _, owner: list(owner.values()),
    "copy": _simple(dict.copy),
}
METHODS[datetime.datetime] = {
    "isoformat": _simple(datetime.datetime.isoformat), "date": _simple(datetime.datetime.date),
}
METHODS[datetime.date] = {"isoformat": _simple(datetime.date.isoformat)}
