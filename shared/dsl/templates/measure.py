"""How large a value is to walk: its nodes and its characters."""

from collections.abc import Sequence
from typing import Any

from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import CONTAINER, ELEMENT, FLOAT, INTEGER
from shared.dsl.templates.result_view import View

SMALL = 2**64
LARGE = 32  # elements from which it pays to look at them all at once, and to remember what was found
_TEXTS = {str}
_NUMBERS = {int, float, bool}
_CONTAINERS = frozenset({dict, list, tuple, View})


def int_cost(value: int) -> int:
    """Units of multiplying, dividing or writing an integer: they grow with the square of its size."""
    bits = value.bit_length() >> 6
    return bits + (bits * bits >> 2)


def measure(value: Any, limit: int, full: str) -> tuple[int, int]:
    """Nodes and characters of a value; Limit with the text `full` once the nodes, or a 64th of the characters, are
    over `limit`.

    An expression can share one list many times, so what is small in memory can be endless to walk:
    lists that hold only scalars are looked at once and counted as often as they are met.
    """
    nodes = chars = 0
    stack: list[Any] = []
    kind = type(value)
    if (kind is list or kind is dict) and len(value) < LARGE:  # most often there is nothing below
        nodes = CONTAINER + ELEMENT * len(value) * (2 if kind is dict else 1)
        chars = _few(value, kind, stack)
    else:
        stack.append(value)
    flat: dict[int, int] = {}
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is View:
            stack.append(node.payload)
            continue
        if kind not in _CONTAINERS:
            nodes += ELEMENT
            chars += _chars(node, kind)
            continue
        size = len(node)
        nodes += CONTAINER + ELEMENT * size * (2 if kind is dict else 1)
        if nodes > limit or chars >> 6 > limit:
            raise Limit(full)
        if size < LARGE:
            chars += _few(node, kind, stack)
        elif id(node) in flat:
            chars += flat[id(node)]
        else:
            depth = len(stack)
            found = _many(list(node), stack) + (_many(list(node.values()), stack) if kind is dict else 0)
            chars += found
            if len(stack) == depth:
                flat[id(node)] = found
    if nodes > limit or chars >> 6 > limit:
        raise Limit(full)
    return nodes, chars


def _few(node: Any, kind: type, stack: list[Any]) -> int:
    """Characters of the scalars in a container; the containers in it go to the stack."""
    chars = 0
    if kind is dict:
        for key in node:
            chars += len(key) if type(key) is str else FLOAT
        node = node.values()
    for each in node:
        kind = type(each)
        if kind is str:
            chars += len(each)
        elif kind in _CONTAINERS:
            stack.append(each)
        else:
            chars += _chars(each, kind)
    return chars


def _many(values: Sequence[Any], stack: list[Any]) -> int:
    """As `_few`; most long lists hold one kind alone, which is quickly found out."""
    kinds = set(map(type, values))
    if kinds == _TEXTS:
        return sum(map(len, values))
    if kinds <= _NUMBERS and (int not in kinds or -SMALL < min(values) <= max(values) < SMALL):
        return len(values) * (FLOAT if float in kinds else INTEGER)
    return _few(values, list, stack)


def _chars(value: Any, kind: type) -> int:
    if kind is int:
        return INTEGER if -SMALL < value < SMALL else int_cost(value) << 2
    if kind is str or kind is bytes:
        return len(value)
    return INTEGER if value is None or kind is bool else FLOAT
