"""Bounds of one render. No clock is read, so the same template over the same values always ends the
same way: every step, element and character is counted against a fixed budget (`template_budget`)."""

import re
from collections.abc import Mapping, Sized
from types import NoneType
from typing import Any, ClassVar, NoReturn

from jinja2 import Undefined

from shared.dsl.templates.budget import MAX_WORK, TOO_MUCH, Limit, current
from shared.dsl.templates.costs import ELEMENT, INTEGER, MADE_CHAR, MADE_ELEMENT, SHIFT, STEP, Cost
from shared.dsl.templates.measure import SMALL, int_cost, measure
from shared.dsl.templates.result_view import MISSING

MAX_SOURCE = 64 * 1024        # characters of one template
MAX_TOKENS = 2000             # words and signs of the code of one template
MAX_NESTING = 80              # levels of the tree of one template
MAX_LOOPS = 20                # `for` within each other: Python takes no more in the code that is made of them
MAX_STEPS = 100_000           # loop steps of one render, all loops together
MAX_ELEMENTS = 100_000        # elements of a list an expression makes
MAX_TEXT = 1024 * 1024        # characters of a text an expression or a render makes
MAX_INT_BITS = 4096           # size of an integer an expression makes
MAX_WIDTH = 1000              # width and precision in `%` and `format`
MAX_VALUE = 2_000_000         # nodes of one final value
MAX_REPEATED = 10_000_000     # units of walking what templates of one value give more than once: about 50 MB
REPEATED = f"what the templates of one value repeat is too large (limit {MAX_REPEATED} units, about 50 MB)"
TOO_LONG = f"a text is too long (limit {MAX_TEXT} characters)"
_CODE = re.compile(r"\{[{%].*?(?:[%}]\}|\Z)", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokens(source: str) -> int:
    """About how many words and signs a parser has to look at; cheap, and never far too low."""
    return sum(len(_TOKEN.findall(code)) for code in _CODE.findall(source))


class Context:
    """One render: the names it sees and the work it has done. Stands in for Jinja's own context."""

    __slots__ = ("_most", "budget", "left", "scope", "steps")
    environment: ClassVar[Any]
    eval_ctx: ClassVar[Any]
    functions: ClassVar[dict[str, Any]]

    def __init__(self, scope: Mapping[str, Any], cost: int) -> None:
        self.scope = scope
        self.steps = 0
        self.budget = budget = current()
        most = MAX_WORK
        if budget is not None and (left := budget.most - budget.used) < most:
            most = left
        self._most = most
        self.left = most - cost

    def close(self) -> None:
        """The decision pays, also for what failed; what would have been too much was not done."""
        if self.budget is not None:
            self.budget.used += self._most - (self.left if self.left > -1 else -1)

    def resolve_or_missing(self, name: str) -> Any:
        value = self.scope.get(name, MISSING)
        return self.functions.get(name, MISSING) if value is MISSING else value

    @property
    def vars(self) -> dict[str, Any]:
        """Top level assignments are exported here for imports, which templates do not have."""
        return {}

    @property
    def exported_vars(self) -> set[str]:
        return set()

    def over(self) -> NoReturn:
        """Nothing is left."""
        raise Limit(self.refusal)

    def spend(self, work: int) -> None:
        self.left -= work
        if self.left < 0:
            self.over()
        assert work >= 0

    @property
    def refusal(self) -> str:
        return TOO_MUCH if self.budget is None or self._most == MAX_WORK else self.budget.refusal

    def step(self, count: int, weight: int) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise Limit(f"too many loop steps (limit {MAX_STEPS})")
        self.spend(count * (weight + STEP))

    def pay(self, cost: Cost, value: Any) -> None:
        """For a call and what it reads of the value, before it reads it."""
        base, reads, char, element, _, _, letter = cost
        kind = type(value)
        if kind is str:
            self.spend(base + (len(value) * (letter or char) >> SHIFT) if reads != "nothing" else base)
        elif reads == "nothing" or kind in _UNREAD or isinstance(value, Undefined):
            self.spend(base)
        elif reads == "deep":
            if kind is int and -SMALL < value < SMALL:
                self.spend(base + ELEMENT + (ELEMENT * cost.node + INTEGER * char >> SHIFT))
            else:
                self._pay_deep(cost, value)
        else:
            self.spend(base + (len(value) * element >> SHIFT if isinstance(value, Sized) else 0))

    def _pay_deep(self, cost: Cost, value: Any) -> None:
        nodes, chars = self.measured(value)
        count = len(value) if isinstance(value, Sized) else 0
        times = max(1, count.bit_length()) if cost.sorts else 1
        per_element = cost.element + (64 * times if cost.sorts else 0)
        self.spend(cost.base + (count * per_element + (nodes * cost.node + chars * cost.char) * times >> SHIFT))

    def measured(self, value: Any) -> tuple[int, int]:
        """Nodes and characters of a value; walking it is paid for."""
        try:
            nodes, chars = measure(value, self.left, self.refusal)
        except Limit:
            self.left = 0
            raise
        self.spend(nodes)
        return nodes, chars

    def weigh(self, value: Any) -> None:
        """Spends what a walk over the whole value costs that also looks at every character."""
        kind = type(value)
        if kind is str:
            self.spend(1 + (len(value) >> COMPARED))
        elif kind is not bool and value is not None:
            nodes, chars = self.measured(value)
            self.spend(nodes + (chars >> COMPARED))

    def sized(self, value: Any) -> Any:
        """The value, if what an operation made is within bounds; making it is work."""
        kind = type(value)
        if kind is str:
            if (length := len(value)) > MAX_TEXT:
                raise Limit(TOO_LONG)
            self.left -= 1 + (length >> MADE_CHAR)
            if self.left < 0:
                self.over()
        elif kind is list or kind is tuple or kind is dict:
            check_elements(len(value))
            self.spend(1 + (len(value) >> MADE_ELEMENT))
        elif kind is int:
            if not -SMALL < value < SMALL:
                check_bits(value.bit_length())
                self.spend(int_cost(value))
        elif kind is complex:
            raise TypeError("the result is a complex number")
        return value


COMPARED = 4  # right shift of characters in a walk
_UNREAD = frozenset({NoneType, bool})


def check_text(length: int) -> None:
    if length > MAX_TEXT:
        raise Limit(TOO_LONG)


def check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise Limit(f"a list is too long (limit {MAX_ELEMENTS} elements)")


def check_bits(bits: int) -> None:
    if bits > MAX_INT_BITS:
        raise Limit(f"an integer is too large (limit {MAX_INT_BITS} bits)")
