"""The workflow as a graph: what each step can still reach, and what `start` cannot."""

from collections.abc import Mapping

from shared.dsl.plan import Step


def reach(steps: Mapping[str, Step]) -> dict[str, frozenset[str]]:
    """For every step, the steps one or more arcs away. Rows are bit sets, so 500 steps take
    some 10 ms (Warshall)."""
    names = list(steps)
    index = {name: position for position, name in enumerate(names)}
    rows = [0] * len(names)
    for name, step in steps.items():
        for arc in step.arcs:
            rows[index[name]] |= 1 << index[arc.step]
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
