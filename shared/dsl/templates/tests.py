"""Tests of the language: Jinja's harmless ones, each paid for by what it looks at."""

from collections.abc import Callable
from typing import Any

from jinja2 import pass_context
from jinja2.tests import TESTS as JINJA_TESTS

from shared.dsl.templates.costs import TEST_COSTS
from shared.dsl.templates.limits import Context
from shared.dsl.templates.operators import pay_arguments, within
from shared.dsl.templates.result_view import unwrap
from shared.dsl.templates.values import given, missing_of, text

_OF_UNDEFINED = ("defined", "undefined", "eq", "==", "equalto", "ne", "!=")


def _number(value: Any) -> Any:
    """`%` of a text would format it."""
    if not isinstance(value, int | float):
        raise TypeError(f"a number is divided, not a {type(value).__name__}")
    return value


_OWN: dict[str, Callable[..., bool]] = {
    "divisibleby": lambda value, number: _number(value) % _number(number) == 0,
    "even": lambda value: _number(value) % 2 == 0,
    "odd": lambda value: _number(value) % 2 == 1,
    "lower": lambda value: text(value).islower(),
    "upper": lambda value: text(value).isupper(),
}


def _test(name: str, function: Callable[..., Any]) -> Callable[..., bool]:
    cost, takes_undefined = TEST_COSTS[name], name in _OF_UNDEFINED
    base, reads = cost.base, cost.reads != "nothing"

    @pass_context
    def run(context: Context, value: Any, *args: Any) -> bool:
        if not takes_undefined and missing_of(value, *args) is not None:
            context.spend(base)
            return False
        value = unwrap(value) if takes_undefined else given(value)
        if reads:
            context.pay(cost, value)
        else:
            context.left -= base
            if context.left < 0:
                context.over()
        if args:
            args = tuple(map(unwrap, args))
            if reads:
                pay_arguments(context, args, {})
        return bool(function(value, *args))

    return run


@pass_context
def _within(context: Context, value: Any, values: Any) -> bool:
    context.spend(TEST_COSTS["in"].base)
    return within(context, value, values)


_KNOWN: dict[str, Any] = {name: function for name, function in JINJA_TESTS.items() if name in TEST_COSTS} | _OWN
TESTS: dict[str, Callable[..., bool]] = {name: _test(name, function) for name, function in _KNOWN.items()}
TESTS["in"] = _within
