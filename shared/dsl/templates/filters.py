"""Filters and tests of the language: Jinja's harmless ones and our own, each counted and bounded.
None depends on a clock, a locale or chance, so a decision can be re-derived from the log."""

import base64
import html
from collections.abc import Callable, Iterator, Sized
from typing import Any

import jinja2
import msgspec
from jinja2 import filters, pass_context
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import _PassArg

from shared.dsl.template_data import SCALARS, payloads, require, text
from shared.dsl.template_limits import Context, Limit, check_elements, check_text
from shared.dsl.template_methods import join, percent, replace
from shared.dsl.template_ops import materialized, within
from shared.dsl.view import unwrap

MAX_PRECISION = 100  # digits `round` takes
MAX_INDENT = 16      # spaces per level `tojson` takes
_JINJA = (
    "abs capitalize count dictsort filesizeformat first float groupby int items last length list lower map"
    " max min reject rejectattr reverse select selectattr sort title trim truncate upper urlencode wordcount"
)
_CHEAP = ("count", "default", "d", "first", "last", "length")  # do not look at every element
_CALLING = (  # run code for every element, some of them more than once
    *("map", "select", "reject", "selectattr", "rejectattr", "sum", "join", "unique"),
    *("sort", "groupby", "dictsort", "min", "max"),
)
_CALL_WORK = 7  # units more for each element
_OF_UNDEFINED = ("defined", "undefined", "eq", "==", "equalto", "ne", "!=", "in")
_NOT_TESTS = ("callable", "escaped", "filter", "test")


def default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    missing = isinstance(value, jinja2.Undefined) or (boolean and not unwrap(value))
    return default_value if missing else value


def tojson(value: Any, indent: int | None = None) -> str:
    value = payloads(value)
    made = msgspec.json.encode(value)
    if indent is not None:
        _check_indent(made, _depth(value), indent)
        made = msgspec.json.format(made, indent=indent)
    return made.decode()


def _check_indent(made: bytes, depth: int, indent: int) -> None:
    """Indented JSON is longer than the plain one by up to lines times depth; on average much less."""
    if not 0 <= indent <= MAX_INDENT:
        raise Limit(f"an indent must be between 0 and {MAX_INDENT}")
    lines = made.count(b",") + 2 * (made.count(b"[") + made.count(b"{"))
    check_text(lines * depth * indent // 16)


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def fromjson(value: Any) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        raise ValueError("the value is not JSON") from None


def b64encode(value: Any) -> str:
    data = value if isinstance(value, bytes) else text(value).encode()
    return base64.b64encode(data).decode()


def b64decode(value: Any) -> str:
    return base64.b64decode(value, validate=True).decode()


def identifier(value: Any) -> str:
    """A SQL identifier, quoted; each part of a dotted name on its own."""
    if not isinstance(value, str) or "\0" in value or not all(value.split(".")):
        raise TypeError("an identifier is a non-empty text, its parts divided by single dots")
    return ".".join('"' + part.replace('"', '""') + '"' for part in value.split("."))


def _getter(attribute: str | int | None) -> Callable[[Any], Any]:
    return unwrap if attribute is None else filters.make_attrgetter(Context.environment, attribute)


def total(values: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    """Numbers only: adding up lists would copy them over and over."""
    if isinstance(start, str | list | tuple | dict):
        raise TypeError("sum adds numbers")
    get = _getter(attribute)
    return sum((unwrap(require(get(value))) for value in values), start)


def unique(values: Any, case_sensitive: bool = False, attribute: str | int | None = None) -> list[Any]:
    get = _getter(attribute)
    seen: set[Any] = set()
    kept = []
    for value in values:
        key = unwrap(require(get(value)))
        if type(key) not in SCALARS:
            raise TypeError(f"unique compares scalars, not a {type(key).__name__}")
        key = key.lower() if isinstance(key, str) and not case_sensitive else key
        if key not in seen:
            seen.add(key)
            kept.append(value)
    return kept


def joined(values: Any, d: Any = "", attribute: str | int | None = None) -> str:
    return join(text(d), map(_getter(attribute), values))


def replaced(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    return replace(text(value), text(old), text(new), -1 if count is None else count)


def formatted(value: Any, *args: Any, **kwargs: Any) -> str:
    return percent(text(value), kwargs or args)


def center(value: Any, width: int = 80) -> str:
    check_text(width)
    return text(value).center(width)


def indented(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    lines = text(value)
    check_text(len(lines) + (lines.count("\n") + 1) * (width if isinstance(width, int) else len(width)))
    return filters.do_indent(lines, width, first, blank)


def batch(values: Any, linecount: int, fill_with: Any = None) -> Iterator[list[Any]]:
    check_elements(linecount)
    return filters.do_batch(values, linecount, fill_with)


def sliced(values: Any, slices: int, fill_with: Any = None) -> Iterator[list[Any]]:
    check_elements(slices)
    return filters.sync_do_slice(values, slices, fill_with)


def rounded(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > MAX_PRECISION:
        raise Limit(f"round takes up to {MAX_PRECISION} digits")
    return filters.do_round(value, precision, method)


def escape(value: Any) -> str:
    return html.escape(text(value))


_OWN: dict[str, Callable[..., Any]] = {
    "default": default, "d": default, "tojson": tojson, "fromjson": fromjson, "b64encode": b64encode,
    "b64decode": b64decode, "identifier": identifier, "sum": total, "unique": unique, "join": joined,
    "replace": replaced, "format": formatted, "center": center, "indent": indented, "batch": batch,
    "slice": sliced, "round": rounded, "escape": escape, "e": escape, "string": text,
}  # fmt: skip


def _filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    cheap, calling, needs = name in _CHEAP, name in _CALLING, _PassArg.from_obj(function)
    takes_undefined = function is default

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not takes_undefined:
            value = unwrap(require(value))
            args = tuple([unwrap(require(arg)) for arg in args])
            kwargs = {key: unwrap(require(arg)) for key, arg in kwargs.items()}
        if cheap:
            context.work += 1
        else:
            context.weigh(value)
        if calling and isinstance(value, Sized):
            context.spend(_CALL_WORK * len(value))
        if needs is not None:
            made = function(_PASS[needs](context), value, *args, **kwargs)
        else:
            made = function(value, *args, **kwargs)
        if isinstance(made, Iterator):
            made = materialized(made)
        return made if cheap else context.sized(made)

    return run


_PASS: dict[_PassArg, Callable[[Context], Any]] = {
    _PassArg.context: lambda context: context,
    _PassArg.eval_context: lambda context: context.eval_ctx,
    _PassArg.environment: lambda context: context.environment,
}


def _test(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    takes_undefined = name in _OF_UNDEFINED

    @pass_context
    def run(context: Context, value: Any, *args: Any) -> bool:
        if name == "in":
            return within(context, value, *args)
        value, args = unwrap(value), tuple(map(unwrap, args))
        if not takes_undefined:
            require(value)
        if args:
            context.weigh(value)
        return bool(function(value, *args))

    return run


FILTERS = {
    name: _filter(name, function)
    for name, function in ({name: filters.FILTERS[name] for name in _JINJA.split()} | _OWN).items()
}
_TESTS: dict[str, Any] = {name: JINJA_TESTS[name] for name in JINJA_TESTS if name not in _NOT_TESTS}
TESTS = {name: _test(name, function) for name, function in _TESTS.items()}
