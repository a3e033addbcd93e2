"""A loop within a loop (V10 §6.4): all levels flattened into one range of iterations.

When the loop starts, a tree is frozen: the innermost level is a list of elements, every other one a list of
`[element, start, elements below]`, where `start` is the index of the first iteration below it. So an outer element is
stored once, however many iterations are below it, and the elements of an iteration are found by bisection.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from shared.dsl.model.plan import Level
from shared.engine.values.stored_values import manifest_list
from shared.errors import Signal
from shared.events.failure import LIMIT

MAX_ITERATIONS = 1_000_000  # and as many elements of the outer levels


class Unusable(Signal):
    """The loop cannot start with these elements; `kind` is the kind of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


Iter = dict[str, Any]
Elements = Callable[[Level, Iter], list[Any]]


def iteration(level: Level, item: Any, index: int, count: int, parent: Iter) -> Iter:
    """`iter` of one element; `parent` is the `iter` of the level around it."""
    found = {level.iterator: item, "index": index, "count": count}
    return {**found, "parent": parent} if parent else found


class Grown:
    """The tree of elements of all levels, and its number of iterations."""

    def __init__(self, levels: Sequence[Level], elements: Elements) -> None:
        self._levels, self._elements = levels, elements
        self._nodes = self.count = 0
        self.items = self._below(0, {})

    def _below(self, depth: int, parent: Iter) -> list[Any]:
        level = self._levels[depth]
        found = self._elements(level, parent)
        self._nodes += len(found)
        if self._nodes > MAX_ITERATIONS:
            raise Unusable(LIMIT, f"loop.in has {self._nodes} elements, over {MAX_ITERATIONS}")
        if depth == len(self._levels) - 1:
            self.count += len(found)
            return found
        nodes = []
        for index, item in enumerate(found):
            start = self.count
            below = self._below(depth + 1, iteration(level, item, index, len(found), parent))
            nodes.append([item, start, below])
        return nodes


def iter_at(levels: Sequence[Level], items: list[Any], index: int) -> Iter:
    """`iter` of the iteration with this index."""
    parent: Iter = {}
    start = 0
    for level in levels[:-1]:
        place = bisect_right(items, index, key=lambda node: node[1]) - 1
        item, start, below = items[place]
        parent, items = iteration(level, item, place, len(items), parent), below
    return iteration(levels[-1], items[index - start], index - start, len(items), parent)


def nested(levels: int, items: list[Any], results: list[Any], start: int = 0) -> list[Any]:
    """The results of the iterations, in index order, as lists within lists like the elements."""
    if levels == 1:
        return results[start : start + len(items)]
    return [manifest_list(nested(levels - 1, below, results, first)) for _, first, below in items]
