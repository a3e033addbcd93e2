"""The workflow as a graph: what each step can still reach."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeVar

from shared.dsl.model.plan import Step

T = TypeVar("T")


class Reached(Set[str]):
    """Names as the bits of a number: 2,000 sets of 2,000 steps take half a megabyte."""

    __slots__ = ("_bits", "_index")

    def __init__(self, bits: int, index: dict[str, int]) -> None:
        self._bits = bits
        self._index = index

    def __contains__(self, name: object) -> bool:
        position = self._index.get(name, -1) if isinstance(name, str) else -1
        return position >= 0 and bool(self._bits >> position & 1)

    def __iter__(self) -> Iterator[str]:
        return (name for name, position in self._index.items() if self._bits >> position & 1)

    def __len__(self) -> int:
        return self._bits.bit_count()

    def __repr__(self) -> str:
        return repr(set(self))

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        """What `&` and `|` give."""
        return frozenset(it)


def reach(steps: Mapping[str, Step]) -> dict[str, Set[str]]:
    """For every step, the steps one or more arcs away."""
    return closure({name: [arc.step for arc in step.arcs] for name, step in steps.items()})


def closure(arcs: Mapping[str, Iterable[str]]) -> dict[str, Set[str]]:
    """For every name, the names one or more arcs away."""
    index = {name: position for position, name in enumerate(arcs)}
    rows: dict[str, int] = {}
    for group in components(arcs, lambda name: (target for target in arcs[name] if target in index)):
        row = 0
        for target in {target for name in group for target in arcs[name] if target in index}:
            row |= 1 << index[target] | rows.get(target, 0)  # what is further on is known already
        rows |= dict.fromkeys(group, row)
    return {name: Reached(rows[name], index) for name in arcs}


def components(nodes: Iterable[T], after: Callable[[T], Iterable[T]]) -> list[list[T]]:
    """Groups of nodes that lead to each other, those further on first. Tarjan's way, without recursion."""
    groups: list[list[T]] = []
    order: dict[T, int] = {}
    low: dict[T, int] = {}
    done: set[T] = set()
    path: list[T] = []
    for root in nodes:
        work = [] if root in order else [_visit(root, order, low, path, after)]
        while work:
            node, left = work[-1]
            for target in left:
                if target not in order:
                    work.append(_visit(target, order, low, path, after))
                    break
                if target not in done:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    groups.append(_popped(path, node))
                    done.update(groups[-1])
    return groups


def _popped(path: list[T], node: T) -> list[T]:
    """The end of the path, from the node on."""
    group = [path.pop()]
    while group[-1] != node:
        group.append(path.pop())
    return group


def _visit(node: T, order: dict[T, int], low: dict[T, int], path: list[T],
           after: Callable[[T], Iterable[T]]) -> tuple[T, Iterator[T]]:
    order[node] = low[node] = len(order)
    path.append(node)
    return node, iter(after(node))
