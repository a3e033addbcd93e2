"""Whole results as templates hand them to programs. In a module of its own: tools load no template library."""

from typing import Any


class WholeLoop(list[Any]):
    """The results of a loop as a program is handed them: it is told of how many `iterations` they are."""

    __slots__ = ("failed", "iterations")

    def __init__(self, results: list[Any], iterations: int, failed: int) -> None:
        super().__init__(results)
        self.iterations, self.failed = iterations, failed


class WholeTable(dict[str, Any]):
    """`{rows, row_count, columns}` as a program is handed it."""
