"""Bounds of one render. No clock is read, so the same template over the same values always ends the
same way: every loop step, element looked at and character made is counted against a fixed budget."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from shared.dsl.view import MISSING, View

MAX_SOURCE = 64 * 1024        # characters of one template
MAX_TOKENS = 4000             # words and signs of the code of one template
MAX_NESTING = 80              # levels of the tree of one template
MAX_STEPS = 100_000           # loop steps of one render, all loops together
MAX_ELEMENTS = 100_000        # elements of a list an expression makes
MAX_TEXT = 1024 * 1024        # characters of a text an expression or a render makes
MAX_INT_BITS = 4096           # size of an integer an expression makes
MAX_WIDTH = 1000              # width and precision in `%` and `format`
MAX_WORK = 5_000_000          # work of one render, see Context.spend
MAX_VALUE = 2_000_000         # nodes of one final value
TOO_LONG = f"a text is too long (limit {MAX_TEXT} characters)"
TOO_MUCH = f"the template does too much work (limit {MAX_WORK} units)"
_SMALL = 2**64
_CODE = re.compile(r"\{[{%].*?(?:[%}]\}|\Z)", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokens(source: str) -> int:
    """About how many words and signs a parser has to look at; cheap, and never far too low."""
    return sum(len(_TOKEN.findall(code)) for code in _CODE.findall(source))


class Limit(Exception):
    """A bound was reached; the message names it."""


class Context:
    """One render: the names it sees and the work it has done. Stands in for Jinja's own context."""

    __slots__ = ("scope", "steps", "work")
    environment: ClassVar[Any]
    eval_ctx: ClassVar[Any]
    functions: ClassVar[dict[str, Any]]

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.steps = 0
        self.work = 0

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

    def spend(self, work: int) -> None:
        """One unit is about one element visited, eight characters made or one operation in a loop."""
        self.work += work
        if self.work > MAX_WORK:
            raise Limit(TOO_MUCH)

    def step(self, count: int, weight: int) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise Limit(f"too many loop steps (limit {MAX_STEPS})")
        self.spend(count * weight)

    def weigh(self, value: Any) -> None:
        """Spends what a walk over the whole value costs."""
        self.spend(weight(value, MAX_WORK - self.work, 3, TOO_MUCH))

    def sized(self, value: Any) -> Any:
        """The value, if what an operation made is within bounds; making it is work."""
        kind = type(value)
        if kind is str:
            check_text(len(value))
            self.spend(1 + (len(value) >> 3))
        elif kind is list or kind is tuple or kind is dict:
            check_elements(len(value))
            self.spend(1 + (len(value) >> 2))
        elif kind is int:
            check_bits(value.bit_length())
        elif kind is complex:
            raise TypeError("the result is a complex number")
        return value


def check_text(length: int) -> None:
    if length > MAX_TEXT:
        raise Limit(TOO_LONG)


def check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise Limit(f"a list is too long (limit {MAX_ELEMENTS} elements)")


def check_bits(bits: int) -> None:
    if bits > MAX_INT_BITS:
        raise Limit(f"an integer is too large (limit {MAX_INT_BITS} bits)")


def weight(value: Any, limit: int, shift: int, full: str = TOO_LONG) -> int:
    """Nodes of a value plus its characters (times 2**-shift); Limit with the text `full` once over `limit`.

    An expression can share one list many times, so what is small in memory can be endless to walk:
    lists that hold only scalars are looked at once and counted as often as they are met.
    """
    total = 0
    flat: dict[int, int] = {}
    stack = [value]
    while stack:
        node = stack.pop()
        known = flat.get(id(node))
        if known is None:
            depth = len(stack)
            known = _weight(node, limit, shift, stack)
            if len(stack) == depth:
                flat[id(node)] = known
        total += known
        if total > limit:
            raise Limit(full)
    return total


def _weight(node: Any, limit: int, shift: int, stack: list[Any]) -> int:
    """The weight of a node and of the scalars in it; the containers in it go to the stack."""
    kind = type(node)
    if kind is View:
        stack.append(node.payload)
        return 1
    if kind is not dict and kind is not list and kind is not tuple:
        return 1 + _scalar(node, kind, shift)
    total = 1 + len(node)
    for each in node.values() if kind is dict else node:
        if total > limit:
            break
        kind = type(each)
        if kind is str or kind is int:
            total += _scalar(each, kind, shift)
        elif kind is dict or kind is list or kind is tuple or kind is View:
            stack.append(each)
    return total


def _scalar(value: Any, kind: type, shift: int) -> int:
    if kind is str:
        return len(value) >> shift
    if kind is int and not -_SMALL < value < _SMALL:
        return int(value.bit_length()) >> (shift + 2)
    return 0
