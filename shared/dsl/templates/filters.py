"""Filters of the language: Jinja's harmless ones and our own, each counted and bounded.
None depends on a clock, a locale or chance, so a decision can be re-derived from the log."""

import base64
import html
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import msgspec
from jinja2 import filters, pass_context
from jinja2.utils import _PassArg

from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import FILTER_COSTS
from shared.dsl.templates.limits import Context, check_elements, check_text
from shared.dsl.templates.methods import join, percent, replace, stripped
from shared.dsl.templates.operators import materialized, pay_arguments, undefined_of
from shared.dsl.templates.result_view import unwrap
from shared.dsl.templates.sequence_filters import (
    batch,
    extreme,
    getter,
    grouped,
    mapping,
    ordered,
    selecting,
    sliced,
    total,
    unique,
)
from shared.dsl.templates.tests import TESTS
from shared.dsl.templates.values import given, missing_of, payloads, text

MAX_PRECISION = 100  # digits that `round` accepts
MAX_INDENT = 16      # spaces per level that `tojson` accepts
_JINJA = (
    "abs capitalize count dictsort filesizeformat first float int items last length lower reverse title truncate upper"
    " urlencode wordcount"
)


def default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    missing = isinstance(value, jinja2.Undefined) or (boolean and not unwrap(value))
    return default_value if missing else value


@pass_context
def tojson(context: Context, value: Any, indent: int | None = None) -> str:
    value = payloads(context, value)
    made = msgspec.json.encode(value)
    context.spend(len(made) >> 5)
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


@pass_context
def _identifier(context: Context, value: Any) -> str:
    if isinstance(value, str):
        context.spend(8 * value.count("."))
    return identifier(value)


@pass_context
def joined(context: Context, values: Any, d: Any = "", attribute: str | int | None = None) -> str:
    return join(context, text(d), map(getter(context, attribute), values))


@pass_context
def replaced(context: Context, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    return replace(context, text(value), text(old), text(new), -1 if count is None else count)


@pass_context
def formatted(context: Context, value: Any, *args: Any, **kwargs: Any) -> str:
    return percent(context, text(value), kwargs or args)


def center(value: Any, width: int = 80) -> str:
    check_text(width)
    return text(value).center(width)


@pass_context
def indented(
    context: Context, value: Any, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    lines = text(value)
    count = lines.count("\n") + 1
    check_text(len(lines) + count * (width if isinstance(width, int) else len(width)))
    context.spend(8 * count)
    return filters.do_indent(lines, width, first, blank)


@pass_context
def trimmed(context: Context, value: Any, chars: str | None = None) -> str:
    return stripped(str.strip)(context, text(value), chars)


@pass_context
def listed(_: Context, value: Any) -> list[Any]:
    if isinstance(value, str):
        check_elements(len(value))
    return list(value)


def rounded(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > MAX_PRECISION:
        raise Limit(f"round takes up to {MAX_PRECISION} digits")
    return filters.do_round(value, precision, method)


@pass_context
def escape(context: Context, value: Any) -> str:
    source = text(value)
    context.spend(2 * sum(map(source.count, "&<>\"'")))
    return html.escape(source)


_OWN: dict[str, Callable[..., Any]] = {
    "default": default, "d": default, "tojson": tojson, "fromjson": fromjson, "b64encode": b64encode,
    "b64decode": b64decode, "identifier": _identifier, "sum": total, "unique": unique, "join": joined,
    "replace": replaced, "format": formatted, "center": center, "indent": indented, "batch": batch,
    "slice": sliced, "round": rounded, "escape": escape, "e": escape, "string": text, "trim": trimmed, "list": listed,
    "sort": ordered, "groupby": grouped, "min": extreme(min), "max": extreme(max),
}  # fmt: skip


def _filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    cost, needs = FILTER_COSTS[name], _PassArg.from_obj(function)
    if cost.reads == "nothing":
        return _glance(cost.base, function)

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        if (missing := missing_of(value, *args, *kwargs.values())) is not None:
            context.spend(cost.base)
            return missing
        value = given(value)
        if args or kwargs:
            args, kwargs = _given(args, kwargs)
            context.pay(cost, value)
            pay_arguments(context, args, kwargs)
        else:
            context.pay(cost, value)
        passed = (_PASS[needs](context),) if needs is not None else ()
        return context.sized(undefined_of(_made, function, *passed, value, *args, **kwargs))

    return run


def _made(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    made = function(*args, **kwargs)
    return materialized(made) if isinstance(made, Iterator) else made


def _glance(base: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that reads nothing of its value."""
    needs, takes_undefined = _PassArg.from_obj(function), function is default

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        context.left -= base
        if context.left < 0:
            context.over()
        if not takes_undefined:
            if (missing := missing_of(value, *args, *kwargs.values())) is not None:
                return missing
            value = given(value)
            if args or kwargs:
                args, kwargs = _given(args, kwargs)
        if needs is not None:
            return function(_PASS[needs](context), value, *args, **kwargs)
        return function(value, *args, **kwargs)

    return run


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(given, args)), {key: given(arg) for key, arg in kwargs.items()} if kwargs else kwargs


_PASS: dict[_PassArg, Callable[[Context], Any]] = {
    _PassArg.context: lambda context: context,
    _PassArg.eval_context: lambda context: context.eval_ctx,
    _PassArg.environment: lambda context: context.environment,
}

FILTERS: dict[str, Callable[..., Any]] = {}
_OWN |= {
    "map": mapping(FILTERS),
    "select": selecting(TESTS, keep=True, by_attribute=False),
    "reject": selecting(TESTS, keep=False, by_attribute=False),
    "selectattr": selecting(TESTS, keep=True, by_attribute=True),
    "rejectattr": selecting(TESTS, keep=False, by_attribute=True),
}
FILTERS.update(
    (name, _filter(name, function))
    for name, function in ({name: filters.FILTERS[name] for name in _JINJA.split()} | _OWN).items()
)
