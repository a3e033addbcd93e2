"""The workflow as a graph: what each step can still reach, and what `start` cannot."""

from collections.abc import Iterable, Mapping

from shared.dsl.plan import Step


def reach(steps: Mapping[str, Step]) -> dict[str, frozenset[str]]:
    """For every step, the steps one or more arcs away."""
    return closure({name: [arc.step for arc in step.arcs] for name, step in steps.items()})


def closure(arcs: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """For every name, the names one or more arcs away. Rows are bit sets, so 500 steps take
    some 10 ms (Warshall)."""
    names = list(arcs)
    index = {name: position for position, name in enumerate(names)}
    rows = [0] * len(names)
    for name, targets in arcs.items():
        for target in targets:
            rows[index[name]] |= 1 << index[target]
    for middle in range(len(names)):
        bit, through = 1 << middle, rows[middle]
        if through:
            rows = [row | through if row & bit else row for row in rows]
    sets: dict[int, frozenset[str]] = {}  # steps of one cycle share theirs
    for row in rows:
        if row not in sets:
            sets[row] = frozenset(names[bit] for bit in _bits(row))
    return {name: sets[row] for name, row in zip(names, rows, strict=True)}


def _bits(row: int) -> list[int]:
    return [position for position, digit in enumerate(reversed(bin(row)[2:])) if digit == "1"]
