"""Operators and calls as compiled templates run them: on payloads, bounded, with their work counted."""

import operator
from collections.abc import Callable, Iterable, Sized
from itertools import islice
from typing import Any

import jinja2
from jinja2.utils import Namespace

from shared.dsl.template_data import SCALARS, Method, require, text
from shared.dsl.template_limits import MAX_ELEMENTS, Context, check_bits, check_elements, check_text
from shared.dsl.template_methods import FUNCTIONS, percent
from shared.dsl.view import View, unwrap

_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "-": operator.sub,
    "/": operator.truediv,
    "//": operator.floordiv,
}


def binop(context: Context, sign: str, left: Any, right: Any) -> Any:
    left, right = unwrap(left), unwrap(right)
    return context.sized(_BINOPS[sign](left, right))


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        check_text(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        check_elements(len(left) + len(right))
    return left + right


def _mul(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, str | list | tuple):
        left, right = right, left
    if isinstance(left, str) and isinstance(right, int):
        check_text(len(left) * right)
    elif isinstance(left, list | tuple) and isinstance(right, int):
        check_elements(len(left) * right)
    elif isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length() - 1)
    return left * right


def _pow(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() * abs(right))
    return left**right


def _mod(left: Any, right: Any) -> Any:
    return percent(left, right) if isinstance(left, str) else left % right


_BINOPS: dict[str, Callable[[Any, Any], Any]] = {**_PLAIN, "+": _add, "*": _mul, "**": _pow, "%": _mod}


def within(context: Context, needle: Any, values: Any) -> bool:
    """`needle in values`; of undefined values nothing is in anything."""
    needle, values = unwrap(needle), unwrap(values)
    if isinstance(needle, jinja2.Undefined) or isinstance(values, jinja2.Undefined):
        return False
    kind = type(values)
    if type(needle) not in SCALARS:
        context.weigh(values)
        return kind is not dict and needle in values
    if kind is list or kind is tuple or kind is str:
        context.spend(len(values) >> 3)
    return needle in values


def weighed(context: Context, value: Any) -> Any:
    """An operand of a comparison that could walk a large value."""
    if type(value) not in SCALARS:
        context.weigh(value)
    return value


def sliced(context: Context, value: Any, part: slice) -> Any:
    value = unwrap(value)
    if isinstance(value, jinja2.Undefined):
        return value
    part = slice(unwrap(part.start), unwrap(part.stop), unwrap(part.step))
    made = value[part]
    context.spend(1 + (len(made) >> 3))
    return made


def joined(context: Context, values: Iterable[Any]) -> str:
    """`a ~ b`, and the text of a block."""
    parts: list[str] = []
    length = 0
    for value in values:
        part = text(value)
        length += len(part)
        check_text(length)
        parts.append(part)
    context.spend(1 + (length >> 3))
    return "".join(parts)


def steps(context: Context, values: Any, weight: int) -> Any:
    """What a `for` runs over; its steps are paid in advance, as no loop ends early."""
    values = unwrap(require(values))
    if not isinstance(values, Sized):
        values = materialized(values)
    context.step(len(values), weight)
    return values


def call(context: Context, function: Any, *args: Any, **kwargs: Any) -> Any:
    kwargs.pop("_loop_vars", None)  # handed by Jinja to macros, which templates do not have
    args = tuple(map(unwrap, args))
    kwargs = {key: unwrap(value) for key, value in kwargs.items()}
    if type(function) is Method:
        _pay(context, function.owner, args)
        return context.sized(function.function(function.owner, *args, **kwargs))
    require(function)
    if function is Namespace or function in FUNCTIONS.values():
        return context.sized(function(*args, **kwargs))
    kind = "view" if type(function) is View else type(function).__name__
    raise TypeError(f"a {kind} cannot be called")


def _pay(context: Context, owner: Any, args: tuple[Any, ...]) -> None:
    for value in args:
        if type(value) not in SCALARS:
            context.weigh(require(value))
    if type(owner) is str or type(owner) is list:
        context.spend(1 + (len(owner) >> 3))


def materialized(value: Any) -> Any:
    """A lazy sequence as a list."""
    made = list(islice(value, MAX_ELEMENTS + 1))
    check_elements(len(made))
    return made
