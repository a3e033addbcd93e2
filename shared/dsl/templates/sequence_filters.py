"""Filters over lists: what they do to every element is done, and paid for, by the same filters and tests that a
template names itself. Only those can be named: nothing internal has a name here."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import jinja2
from jinja2 import filters, pass_context
from jinja2.exceptions import FilterArgumentError, TemplateRuntimeError

from shared.dsl.model.texts import is_strict
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.limits import Context, check_elements
from shared.dsl.templates.result_view import MISSING, unwrap
from shared.dsl.templates.values import SCALARS, Undefined, item, require

MAX_PARTS = 16  # of the attributes a filter reads: `a.b`, `a,b`
MAX_ATTRIBUTE = 1000  # characters of them
_LIST = 24  # units of a list that is made
_ATTRIBUTE = 60  # units of an attribute that is not simply a key of a mapping: telling that there is none is slow
Named = Mapping[str, Callable[..., Any]]


def getter(context: Context, attribute: str | int | None, default: Any = None) -> Callable[[Any], Any]:
    """What reads an attribute, `a.b.0`, of an element. The filter has paid for one name of a mapping."""
    if attribute is None:
        return unwrap
    check_parts(attribute)
    names = attribute.split(".") if isinstance(attribute, str) else [attribute]
    parts = [int(each) if isinstance(each, str) and each.isdigit() else each for each in names]
    first = parts[0]

    def one(value: Any) -> Any:
        if type(value) is dict:
            found = value.get(first, MISSING)
            if found is not MISSING:
                return found
        context.spend(_ATTRIBUTE)
        found = item(value, first)
        return default if default is not None and isinstance(found, jinja2.Undefined) else found

    def many(value: Any) -> Any:
        for part in parts:
            context.spend(_ATTRIBUTE)
            value = item(value, part)
            if default is not None and isinstance(value, jinja2.Undefined):
                value = default
        return value

    return one if len(parts) == 1 else many


def check_parts(attribute: Any) -> int:
    """How many names an attribute has."""
    long = len(attribute) if isinstance(attribute, str) else attribute.bit_length() if isinstance(attribute, int) else 0
    if long > MAX_ATTRIBUTE:
        raise Limit(f"an attribute of {long} characters (limit {MAX_ATTRIBUTE})")
    parts = 1 + attribute.count(".") + attribute.count(",") if isinstance(attribute, str) else 1
    if parts > MAX_PARTS:
        raise Limit(f"an attribute of {parts} parts (limit {MAX_PARTS})")
    return parts


def mapping(named: Named) -> Callable[..., Iterator[Any]]:
    """`map('filter', …)` and `map(attribute=…)`."""

    @pass_context
    def run(context: Context, values: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        if not args and "attribute" in kwargs:
            attribute, default = kwargs.pop("attribute"), kwargs.pop("default", None)
            if kwargs:
                raise FilterArgumentError(f"Unexpected keyword argument {next(iter(kwargs))!r}")
            return map(getter(context, attribute, default), values)
        if not args:
            raise FilterArgumentError("map requires a filter argument")
        function = _called(named, "filter", args[0])
        return (function(context, value, *args[1:], **kwargs) for value in values)

    return run


def selecting(named: Named, *, keep: bool, by_attribute: bool) -> Callable[..., Iterator[Any]]:
    """`select`, `reject`, `selectattr` and `rejectattr`."""

    @pass_context
    def run(context: Context, values: Any, *args: Any) -> Iterator[Any]:
        if by_attribute and not args:
            raise FilterArgumentError("Missing parameter for attribute name")
        get = getter(context, args[0]) if by_attribute else unwrap
        test = args[1:] if by_attribute else args
        if not test:
            return (value for value in values if bool(get(value)) is keep)
        holds = _called(named, "test", test[0])
        return (value for value in values if holds(context, get(value), *test[1:]) is keep)

    return run


def _called(named: Named, what: str, name: Any) -> Callable[..., Any]:
    if not isinstance(name, str) or name not in named:
        shown = name[:60] if isinstance(name, str) else type(name).__name__
        raise TemplateRuntimeError(f"there is no {what} `{shown}`")
    return named[name]


@pass_context
def total(context: Context, values: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    """Numbers only: adding up lists would copy them over and over."""
    if isinstance(start, str | list | tuple | dict):
        raise TypeError("sum adds numbers")
    get = getter(context, attribute)
    return sum((unwrap(require(get(value))) for value in values), start)


@pass_context
def unique(
    context: Context, values: Any, case_sensitive: bool = False, attribute: str | int | None = None
) -> list[Any]:
    get = getter(context, attribute)
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


def _key(context: Context, attribute: Any, case_sensitive: bool, default: Any = None) -> Callable[[Any], Any]:
    """What an element is ordered by; several attributes are given as `a,b`."""
    if isinstance(attribute, str) and "," in attribute:
        check_parts(attribute)
        keys = [_key(context, each.strip(), case_sensitive, default) for each in attribute.split(",")]
        return lambda value: [key(value) for key in keys]
    get = getter(context, attribute, default)

    def key(value: Any) -> Any:
        found = unwrap(get(value))
        if not is_strict():
            require(found)
        return found.lower() if not case_sensitive and isinstance(found, str) else found

    return key


@pass_context
def ordered(
    context: Context, values: Any, reverse: bool = False, case_sensitive: bool = False,
    attribute: str | int | None = None,
) -> list[Any]:
    return sorted(values, key=_key(context, attribute, case_sensitive), reverse=reverse)


def extreme(most: Callable[..., Any]) -> Callable[..., Any]:
    """`min` and `max`; of nothing it is undefined."""

    @pass_context
    def run(
        context: Context, values: Any, case_sensitive: bool = False, attribute: str | int | None = None
    ) -> Any:
        found = most(values, key=_key(context, attribute, case_sensitive), default=MISSING)
        return Undefined(name="the first of an empty list") if found is MISSING else found

    return run


class Group(NamedTuple):
    grouper: Any
    list: list[Any]


@pass_context
def grouped(
    context: Context, values: Any, attribute: str | int, default: Any = None, case_sensitive: bool = False
) -> list[Group]:
    """By the value of an attribute, in its order; a group is named as its first element has it."""
    key, shown = _key(context, attribute, case_sensitive, default), getter(context, attribute, default)
    pairs = sorted(((key(value), value) for value in values), key=itemgetter(0))
    groups = ([value for _, value in each] for _, each in groupby(pairs, key=itemgetter(0)))
    return [Group(shown(group[0]), group) for group in groups]


@pass_context
def batch(context: Context, values: Any, linecount: int, fill_with: Any = None) -> Iterator[list[Any]]:
    check_elements(linecount)
    context.spend((max(0, linecount) >> 3) + _LIST * (len(values) // max(1, linecount) + 1))
    return filters.do_batch(values, linecount, fill_with)


@pass_context
def sliced(context: Context, values: Any, slices: int, fill_with: Any = None) -> Iterator[list[Any]]:
    check_elements(slices)
    context.spend(_LIST * max(0, slices))
    return filters.sync_do_slice(values, slices, fill_with)
