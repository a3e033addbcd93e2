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

from shared.dsl.template_limits import MAX_TEXT, MAX_VALUE, Limit, check_text, weight
from shared.dsl.view import MISSING, View, unwrap

_DATES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
SCALARS = frozenset({NoneType, bool, int, float, str, bytes, Decimal, UUID, *_DATES})
KEYS = frozenset({NoneType, bool, int, float, str})
_LOOP = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem"),
)


class Undefined(jinja2.Undefined):
    """`default`, `is defined`, `==`, `!=` and `in` take it; any other use is an error. Its members are
    undefined too, so that `x.a.b | default(y)` works through missing levels."""

    __slots__ = ()

    def member(self, name: Any) -> "Undefined":
        own = self._undefined_name
        return Undefined(name=str(name) if own is None else f"{own}.{name}")

    def fail(self, *_: Any, **__: Any) -> NoReturn:
        raise UndefinedError(self._undefined_hint or f"'{self._undefined_name}' is undefined")

    __bool__ = __str__ = __len__ = __iter__ = __call__ = __int__ = __float__ = __complex__ = fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = fail
    __lt__ = __le__ = __gt__ = __ge__ = fail

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return self

    def __contains__(self, _: Any) -> bool:
        return False

    def __eq__(self, _: object) -> bool:
        return False

    def __ne__(self, _: object) -> bool:
        return True

    def __hash__(self) -> int:
        return id(type(self))

    def __repr__(self) -> str:
        return "undefined"


class Method:
    """A method of a value, on its way from `method` to the call."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self.function = function
        self.owner = owner


METHODS: dict[type, dict[str, Callable[..., Any]]] = {}  # filled by template_methods


def require(value: Any) -> Any:
    """The value, unless it is undefined."""
    if isinstance(value, jinja2.Undefined):
        if isinstance(value, Undefined):
            value.fail()
        raise UndefinedError("an `if` without `else` gave no value")
    return value


def method(owner: Any, name: str) -> Any:
    """`owner.name` of `owner.name(…)`. Data cannot be called, so here a method comes before a key."""
    owner = unwrap(owner)
    known = METHODS.get(type(owner), {}).get(name)
    if known is not None:
        return Method(known, owner)
    if isinstance(owner, LoopContext) and name in ("cycle", "changed"):
        return Method(getattr(LoopContext, name), owner)
    return member(owner, name)


def member(owner: Any, name: str) -> Any:
    """`owner.name`: keys only, so that `ctx.items` is undefined when there is no such key."""
    if type(owner) is dict:
        found = owner.get(name, MISSING)
        if found is not MISSING:
            return found
    return _member(owner, name)


def _member(owner: Any, name: str) -> Any:
    if type(owner) is View:
        found = owner.find(name)
        return _member(owner.payload, name) if found is MISSING else found
    if isinstance(owner, Undefined):
        return owner.member(name)
    found = _special(owner, name)
    return Undefined(name=name) if found is MISSING else found


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
            require(key)
        return Undefined(name="[…]")
    if kind is dict:
        found = owner.get(key, MISSING)
        return Undefined(name=str(key)) if found is MISSING else found
    if type(key) is int:
        return _index(owner, key)
    return _member(owner, key) if isinstance(key, str) else Undefined(name=str(key))


def _index(owner: Any, index: int) -> Any:
    if type(owner) is View and type(owner.payload) is dict:
        return item(owner.payload, index)
    if isinstance(owner, Undefined):
        return owner.member(index)
    owner = unwrap(owner)
    if not isinstance(owner, list | tuple | str | range):
        return Undefined(name=f"[{index}]")
    try:
        return owner[index]
    except IndexError:
        return Undefined(name=f"[{index}]")


def plain(value: Any) -> Any:
    """A final value as plain data: views give their results, lazy sequences become lists. The value
    itself when it is plain already."""
    return value if type(value) in SCALARS else _plain(value, [MAX_VALUE], raw=True)


def payloads(value: Any) -> Any:
    """As `plain`, but views give their payloads."""
    return value if type(value) in SCALARS else _plain(value, [MAX_VALUE], raw=False)


def _plain(value: Any, left: list[int], raw: bool) -> Any:
    kind = type(value)
    if kind is View:
        return value.raw if raw else value.payload
    if kind is list:
        return _plain_list(value, left, raw)
    if kind is dict:
        return _plain_dict(value, left, raw)
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
    left[0] -= count
    if left[0] < 0:
        raise Limit(f"the result is too large (limit {MAX_VALUE} nodes)")


def _plain_list(values: list[Any], left: list[int], raw: bool) -> list[Any]:
    _spend(left, len(values))
    copy = values
    for index, value in enumerate(values):
        if type(value) not in SCALARS:
            made = _plain(value, left, raw)
            if made is not value:
                copy = list(values) if copy is values else copy
                copy[index] = made
    return copy


def _plain_dict(values: dict[Any, Any], left: list[int], raw: bool) -> dict[Any, Any]:
    _spend(left, len(values))
    copy = values
    for key, value in values.items():
        if type(value) not in SCALARS:
            made = _plain(value, left, raw)
            if made is not value:
                copy = dict(values) if copy is values else copy
                copy[key] = made
    return copy


def text(value: Any) -> str:
    """A value as part of a text, as Jinja writes it."""
    if type(value) is str:
        return value
    value = plain(value)
    if isinstance(value, dict | list):
        weight(value, MAX_TEXT, 0)
    made = value.decode() if isinstance(value, bytes) else str(value)
    check_text(len(made))
    return made
