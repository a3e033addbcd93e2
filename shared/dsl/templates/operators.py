"""Operators and calls as compiled templates run them: on payloads, bounded, with their work counted."""

import operator
from collections.abc import Callable, Iterable, Sized
from itertools import islice
from types import NoneType
from typing import Any

import jinja2
from jinja2.exceptions import UndefinedError
from jinja2.utils import Namespace

from shared.dsl.model.texts import is_strict
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import COMPARED_CHAR, FUNCTION_COSTS, METHOD_COSTS, OPERATOR, SHIFT
from shared.dsl.templates.limits import (
    MAX_ELEMENTS,
    MAX_TEXT,
    TOO_LONG,
    Context,
    check_bits,
    check_elements,
    check_text,
)
from shared.dsl.templates.measure import SMALL, int_cost
from shared.dsl.templates.methods import FUNCTIONS, percent
from shared.dsl.templates.result_view import View, folded, unwrap
from shared.dsl.templates.values import SCALARS, Undefined, member, method, missing_of, require, written

_LISTS = (list, tuple)
_UNDEFINED = jinja2.Undefined  # that of the first edition's `if` without `else` too
_MANY = (str, list, tuple)
_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "-": operator.sub,
    "/": operator.truediv,
    "//": operator.floordiv,
}


_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}


def binop(context: Context, sign: str, left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int and sign in _SUMS:
        context.left -= OPERATOR
        if context.left < 0:
            context.over()
        made = _SUMS[sign](left, right)
        return made if -SMALL < made < SMALL else context.sized(made)
    left, right = unwrap(left), unwrap(right)
    if (missing := missing_of(left, right)) is not None:
        context.spend(OPERATOR)
        return missing
    if type(left) is str and sign == "%":
        return context.sized(percent(context, left, right))
    context.spend(OPERATOR + _large(left) + _large(right))
    return context.sized(_BINOPS[sign](left, right))


def _large(side: Any) -> int:
    return 4 * int_cost(side) if type(side) is int and not -SMALL < side < SMALL else 0


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        check_text(len(left) + len(right))
    elif isinstance(left, _LISTS) and isinstance(right, _LISTS):
        check_elements(len(left) + len(right))
    return left + right


def _mul(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, _MANY):
        left, right = right, left
    if isinstance(left, str) and isinstance(right, int):
        check_text(len(left) * right)
    elif isinstance(left, _LISTS) and isinstance(right, int):
        check_elements(len(left) * right)
    elif isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length() - 1)
    return left * right


def _pow(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() * abs(right))
    return left**right


_BINOPS: dict[str, Callable[[Any, Any], Any]] = {**_PLAIN, "+": _add, "*": _mul, "**": _pow, "%": operator.mod}


def within(context: Context, needle: Any, values: Any) -> bool:
    """`needle in values`; of undefined values nothing is in anything, and nothing is in none."""
    if type(needle) not in SCALARS:
        needle = unwrap(needle)
    kind = type(values)
    if kind not in _SEARCHED:
        if kind is View and values.folds:
            needle = folded(needle)
        values = unwrap(values)
        kind = type(values)
    if isinstance(needle, _UNDEFINED) or isinstance(values, _UNDEFINED) or (values is None and not is_strict()):
        return False
    if type(needle) not in SCALARS:
        if kind is dict:
            return False
        context.weigh(needle)
        context.weigh(values)
        return needle in values
    if kind is str:
        context.spend(4 + (len(values) * METHOD_COSTS["find"].char >> SHIFT))
    elif kind is list or kind is tuple:
        # texts of one length are compared to the end
        long = len(needle) if isinstance(needle, _TEXTS) else 0
        context.left -= 4 + len(values) + (len(values) * long >> COMPARED_CHAR)
        if context.left < 0:
            context.over()
    return needle in values


_SEARCHED = frozenset({str, list, tuple, dict})
_TEXTS = (str, bytes)


def weighed(context: Context, value: Any) -> Any:
    """An operand of a comparison that could walk a large value."""
    kind = type(value)
    if kind is str:
        context.left -= 1 + (len(value) >> COMPARED_CHAR)
        if context.left < 0:
            context.over()
    elif kind not in SCALARS:
        context.weigh(value)
    return value


_QUICK = frozenset({int, float, bool, NoneType})
_COMPARES: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compared(context: Context, sign: str, left: Any, right: Any) -> Any:
    """Of texts no more is read than the shorter one has."""
    if type(left) is str and type(right) is str:
        long, other = len(left), len(right)
        context.left -= 2 + ((long if long < other else other) >> COMPARED_CHAR)
        if context.left < 0:
            context.over()
    elif type(left) not in _QUICK or type(right) not in _QUICK:
        weighed(context, left)
        weighed(context, right)
    return _COMPARES[sign](left, right)


def sliced(context: Context, value: Any, part: slice) -> Any:
    value = unwrap(value)
    part = slice(unwrap(part.start), unwrap(part.stop), unwrap(part.step))
    if isinstance(value, _UNDEFINED):
        return value
    if (missing := missing_of(part.start, part.stop, part.step)) is not None:
        return missing
    if isinstance(value, Sized) and not isinstance(value, dict):
        count = len(range(*part.indices(len(value))))
        context.spend(OPERATOR + (count >> (5 if type(value) is str else 3)))
    return value[part]


def concatenated(context: Context, values: list[Any]) -> Any:
    """`a ~ b`."""
    missing = missing_of(*values)
    return joined(context, values) if missing is None else missing


def joined(context: Context, values: Iterable[Any]) -> str:
    """The text of a block."""
    parts: list[str] = []
    length = 0
    for value in values:
        context.left -= OPERATOR
        part = written(context, value)
        length += len(part)
        if length > MAX_TEXT:
            raise Limit(TOO_LONG)
        parts.append(part)
    return "".join(parts)


def steps(context: Context, values: Any, weight: int) -> Any:
    """What a `for` runs over; its steps are paid in advance, as no loop ends early."""
    values = unwrap(require(values))
    if not isinstance(values, Sized):
        values = materialized(values)
    context.step(len(values), weight)
    return values


def invoke(context: Context, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """`owner.name(…)`. Data cannot be called, so here a method comes before a key."""
    if type(owner) is View:
        if owner.folds and name == "get":
            args = (folded(unwrap(args[0])), *args[1:]) if args else args
        owner = owner.payload
    if isinstance(owner, Undefined) and not is_strict():
        context.spend(OPERATOR)
        return owner.member(name)
    function = method(owner, name)
    if function is None:
        return call(context, member(owner, name), *args, **kwargs)
    if args or kwargs:
        args, kwargs = _unwrapped(args, kwargs)
        if name in _READ:
            pay_arguments(context, args, kwargs)
    context.pay(METHOD_COSTS[name], owner)
    if name != "get" and (missing := missing_of(*args, *kwargs.values())) is not None:
        return missing
    return context.sized(undefined_of(function, context, owner, *args, **kwargs))


_READ = {name for name, cost in METHOD_COSTS.items() if cost.reads != "nothing"} | {"changed"}


def _unwrapped(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(unwrap, args)), {key: unwrap(value) for key, value in kwargs.items()} if kwargs else kwargs


def call(context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    require(function)
    args, kwargs = _unwrapped(args, kwargs)
    name = _NAMES.get(function) if callable(function) else None
    if name is not None:
        context.pay(FUNCTION_COSTS[name], args[0] if args else None)
        if (missing := missing_of(*args)) is not None:
            return missing
        return context.sized(function(*args, **kwargs))
    kind = "view" if type(function) is View else type(function).__name__
    raise TypeError(f"a {kind} cannot be called")


def undefined_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function makes; where it uses an element that is undefined, that is undefined too."""
    try:
        return function(*args, **kwargs)
    except UndefinedError as error:
        if is_strict():
            raise
        return Undefined(hint=str(error))


_NAMES: dict[Any, str] = {function: name for name, function in FUNCTIONS.items()}
assert FUNCTIONS["namespace"] is Namespace


def pay_arguments(context: Context, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    """Every argument is read, and compared or copied at most as a walk does."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) is str:
            context.spend(1 + (len(value) >> 6))
        elif type(value) not in SCALARS and not isinstance(value, _UNDEFINED):
            context.weigh(value)


def materialized(value: Any) -> Any:
    """A lazy sequence as a list."""
    made = list(islice(value, MAX_ELEMENTS + 1))
    check_elements(len(made))
    return made
