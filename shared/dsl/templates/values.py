"""Values in templates: what an undefined name does, how members are found, and how a final value
becomes plain data or text."""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from types import NoneType
from typing import Any, NoReturn
from uuid import UUID

import jinja2
from jinja2.exceptions import UndefinedError
from jinja2.runtime import LoopContext
from jinja2.utils import Namespace

from shared.dsl.model.texts import Alias, is_strict
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import FILTER_COSTS, MADE_CHAR
from shared.dsl.templates.limits import MAX_TEXT, MAX_VALUE, TOO_LONG, Context, check_text
from shared.dsl.templates.measure import SMALL, measure
from shared.dsl.templates.result_view import MISSING, View, unwrap

_DATES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
SCALARS = frozenset({NoneType, bool, int, float, str, bytes, Decimal, UUID, *_DATES})
KEYS = frozenset({NoneType, bool, int, float, str})
_GIVEN = frozenset({*SCALARS, dict, list, tuple})
_LOOP = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem"),
)


IS_UNDEFINED = " is undefined"
SHOWN_NAME = 200  # characters of a name that is not there


def shown_name(name: Any) -> str:
    """As much of a name or key as a person reads; the digits of a large number are slow to tell."""
    if type(name) is int and not -SMALL < name < SMALL:
        return "…"
    return str(name)[:SHOWN_NAME]


class Undefined(jinja2.Undefined):
    """Testing is free, using is an error. It is false, equal to another undefined alone, neither less nor more than
    anything; its members, and what an operator, a filter or a method makes of it, are undefined too. To put it
    somewhere, into an argument, a key or a text, is an error (`require`)."""

    __slots__ = ()

    def member(self, name: Any) -> "Undefined":
        """Its name is for people: a loop that keeps asking for attributes of what is not there must not make it
        longer."""
        own, part = self._undefined_name, shown_name(name)
        if own is not None:
            part = own if len(own) > SHOWN_NAME else f"{own}.{part}"
        return Undefined(name=part)

    def fail(self, *_: Any, **__: Any) -> NoReturn:
        raise UndefinedError(self._undefined_hint or f"'{self._undefined_name}'{IS_UNDEFINED}")

    def _same(self, *_: Any) -> "Undefined":
        return self.fail() if is_strict() else self

    def _false(self, *_: Any) -> bool:
        return self.fail() if is_strict() else False

    _operand: Any = _same  # Jinja's own never come back
    _never: Any = _false
    __str__ = __len__ = __iter__ = __call__ = __int__ = __float__ = __complex__ = fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operand
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = _operand
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _never

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return self

    def __contains__(self, _: Any) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined) and not is_strict()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(type(self))

    def __repr__(self) -> str:
        return "undefined"


METHODS: dict[type, dict[str, Callable[..., Any]]] = {}  # filled by `methods.py`; they get the context first
_OF_LOOPS: dict[str, Callable[..., Any]] = {
    "cycle": lambda _, loop, *args: loop.cycle(*args), "changed": lambda _, loop, *args: loop.changed(*args),
}


def require(value: Any) -> Any:
    """The value, unless it is undefined."""
    if isinstance(value, jinja2.Undefined):
        if isinstance(value, Undefined):
            value.fail()
        raise UndefinedError(_NO_ELSE)
    return value


def absent(_: str) -> jinja2.Undefined:
    """What `a if b` is when `b` does not hold. In the first edition it could be tested, unlike anything undefined."""
    return jinja2.Undefined(_NO_ELSE) if is_strict() else Undefined(hint=_NO_ELSE)


_NO_ELSE = "an `if` without `else` gave no value"


def missing_of(*values: Any) -> Undefined | None:
    """The first of them that is undefined; what is made of it is undefined as well."""
    for value in values:
        if isinstance(value, Undefined):
            return None if is_strict() else value
    return None


def method(owner: Any, name: str) -> Callable[..., Any] | None:
    """What `owner.name(…)` calls, if there is such a method."""
    known = METHODS.get(type(owner))
    if known is not None:
        return known.get(name)
    if isinstance(owner, Alias):
        return METHODS[str].get(name)
    return _OF_LOOPS.get(name) if isinstance(owner, LoopContext) else None


def given(value: Any) -> Any:
    """The payload of what an operation is given; nothing undefined."""
    return value if type(value) in _GIVEN else unwrap(require(value))


def member(owner: Any, name: str) -> Any:
    """`owner.name`: keys only, so that `ctx.items` is undefined when there is no such key."""
    if type(owner) is dict:
        found = owner.get(name, MISSING)
        if found is not MISSING:
            return found
    return _member(owner, name)


def named(context: Context, owner: Any, name: str) -> Any:
    """As `member`, paid for where it is slow: telling that there is no such name is."""
    if type(owner) is dict:
        found = owner.get(name, MISSING)
        if found is not MISSING:
            return found
    context.spend(_OWN if isinstance(owner, Namespace | LoopContext) else _SOUGHT)
    return _member(owner, name)


def picked(context: Context, owner: Any, key: Any) -> Any:
    """As `item`, paid for."""
    if type(owner) is list and type(key) is int and -(size := len(owner)) <= key < size:
        context.spend(_OWN)
        return owner[key]
    context.spend(_SOUGHT)
    return item(owner, key)


_SOUGHT = 40
_OWN = 6


def _member(owner: Any, name: str) -> Any:
    if type(owner) is View:
        found = owner.find(name)
        return _member(owner.payload, name) if found is MISSING else found
    if isinstance(owner, Undefined):
        return owner.member(name)
    found = _special(owner, name)
    return Undefined(name=shown_name(name)) if found is MISSING else found


def _special(owner: Any, name: str) -> Any:
    """Members of what is neither plain data nor a view: loop variables, namespaces, groups, dates."""
    if isinstance(owner, LoopContext):
        return getattr(owner, name) if name in _LOOP else MISSING
    if isinstance(owner, Namespace):
        return MISSING if name.startswith("_") else getattr(owner, name, MISSING)
    if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        return getattr(owner, name)
    if isinstance(owner, datetime.date) and name in ("year", "month", "day", "hour", "minute", "second"):
        return getattr(owner, name, MISSING)
    if isinstance(owner, Mapping):
        return owner.get(name, MISSING)
    return MISSING


def item(owner: Any, key: Any) -> Any:
    """`owner[key]`. Keys are scalars: hashing a deeply nested tuple can exhaust the C stack."""
    key = unwrap(key)
    kind = type(owner)
    if type(key) not in KEYS:
        if isinstance(key, jinja2.Undefined):
            return require(key) if is_strict() else key
        return Undefined(name="[…]")
    if kind is dict:
        found = owner.get(key, MISSING)
        return Undefined(name=shown_name(key)) if found is MISSING else found
    if type(key) is int:
        return _index(owner, key)
    return _member(owner, key) if isinstance(key, str) else Undefined(name=shown_name(key))


def _index(owner: Any, index: int) -> Any:
    if type(owner) is View and type(owner.payload) is dict:
        return item(owner.payload, index)
    if isinstance(owner, Undefined):
        return owner.member(index)
    owner = unwrap(owner)
    if not isinstance(owner, list | tuple | str | range):
        return Undefined(name=f"[{shown_name(index)}]")
    size = len(owner)
    return owner[index] if -size <= index < size else Undefined(name=f"[{shown_name(index)}]")


def plain(value: Any) -> Any:
    """A final value as plain data: views give their results, lazy sequences become lists. The value
    itself when it is plain already."""
    return value if type(value) in SCALARS else _plain(value, [MAX_VALUE], raw=True)


def final(context: Context, value: Any) -> Any:
    """As `plain`, paid for."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if (kind is dict and SCALARS.issuperset(map(type, value.values()))) or (
        kind is list and SCALARS.issuperset(map(type, value))
    ):
        context.spend((_CONTAINER + (len(value) >> 1)) * _WALKED)
        return value
    return _paid(context, value, raw=True)


def payloads(context: Context, value: Any) -> Any:
    """As `final`, but views give their payloads."""
    return value if type(value) in SCALARS else _paid(context, value, raw=False)


def untouched(value: Any) -> Any:
    """What a path of names leads to: data that is plain already, unless views are listed in it."""
    kind = type(value)
    if kind is View:
        return value.raw
    if kind is list or kind is dict:
        return value if View not in map(type, value if kind is list else value.values()) else plain(value)
    return plain(value)


def _paid(context: Context, value: Any, raw: bool) -> Any:
    left = [min(MAX_VALUE, max(0, context.left) // _WALKED)]
    most = left[0]
    try:
        made = _plain(value, left, raw)
    except Limit:
        raise Limit(_TOO_LARGE if most == MAX_VALUE else context.refusal) from None
    finally:
        context.left -= max(0, most - max(0, left[0])) * _WALKED
    return made


_WALKED = 2  # units of a node that is walked
_CONTAINER = 10  # nodes that a list or mapping counts
_COPY = 12       # and a tuple in addition, of which a list is made
_TOO_LARGE = f"the result is too large (limit {MAX_VALUE} nodes)"


def _plain(value: Any, left: list[int], raw: bool) -> Any:
    kind = type(value)
    if kind is View:
        return value.raw if raw else value.payload
    if kind is list:
        return _plain_list(value, left, raw)
    if kind is dict:
        return _plain_dict(value, left, raw)
    if kind is tuple:
        left[0] -= _COPY
        return _plain_list(list(value), left, raw)
    if isinstance(value, Mapping):
        return _plain_dict(dict(value), left, raw)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple | range | list | Iterator) or kind in _VIEWS:
        return _plain_list(list(_bounded(value, left)), left, raw)
    if kind in SCALARS:
        return value
    require(value)
    raise TypeError(f"the result is not data but a {_KINDS.get(kind, kind.__name__)}")


_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_KINDS = {Namespace: "namespace", LoopContext: "loop"}


def _bounded(values: Iterable[Any], left: list[int]) -> Iterator[Any]:
    for count, value in enumerate(values):
        if count > left[0]:
            _spend(left, count)
        yield value


def _spend(left: list[int], count: int) -> None:
    left[0] -= _CONTAINER + (count >> 1)
    if left[0] < 0:
        raise Limit(_TOO_LARGE)


def _plain_list(values: list[Any], left: list[int], raw: bool) -> list[Any]:
    _spend(left, len(values))
    return values if SCALARS.issuperset(map(type, values)) else _plain_parts(values, enumerate(values), left, raw)


def _plain_dict(values: dict[Any, Any], left: list[int], raw: bool) -> dict[Any, Any]:
    _spend(left, len(values))
    return values if SCALARS.issuperset(map(type, values.values())) else _plain_parts(values, values.items(), left, raw)


def _plain_parts(values: Any, parts: Iterable[tuple[Any, Any]], left: list[int], raw: bool) -> Any:
    """A copy as soon as a part of it has to be another one."""
    copy = values
    for key, value in parts:
        if type(value) not in SCALARS:
            made = _plain(value, left, raw)
            if made is not value:
                copy = values.copy() if copy is values else copy
                copy[key] = made
    return copy


def text(value: Any) -> str:
    """A value as part of a text, as Jinja writes it. Whoever calls it has paid for reading the value."""
    if type(value) is str:
        return value
    value = plain(value)
    if isinstance(value, dict | list):
        _, chars = measure(value, MAX_TEXT, TOO_LONG)
        check_text(chars >> 3)  # a float counts more than it is long; the text itself is looked at below
    made = value.decode() if isinstance(value, bytes) else str(value)
    check_text(len(made))
    return made


def written(context: Context, value: Any) -> str:
    """As `text`, paid for."""
    if type(value) is str:
        context.left -= 1 + (len(value) >> MADE_CHAR)
        if context.left < 0:
            context.over()
        return value
    if type(value) is int and -SMALL < value < SMALL:
        context.spend(_NUMBER)
        return str(value)
    pay_written(context, value)
    made = text(value)
    context.spend(len(made) >> MADE_CHAR)
    return made


def pay_written(context: Context, value: Any) -> None:
    """For reading a value that becomes text, or is bound."""
    if type(value) in _QUICK or (type(value) is int and -SMALL < value < SMALL):
        context.spend(_NUMBER)
    elif not isinstance(value, jinja2.Undefined):
        context.pay(FILTER_COSTS["string"], unwrap(value))


_QUICK = frozenset({NoneType, bool, float})
_NUMBER = 10
