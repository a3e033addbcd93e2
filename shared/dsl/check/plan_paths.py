"""Where the parts of a plan are in the document they were read from. But for `own` only for a document without
errors: its shapes are taken for granted."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.dsl.read.reader import short
from shared.dsl.source.nodes import Path

LISTED = 5  # names a message lists


class Sites:
    """`steps` are the paths of the plan's steps."""

    def __init__(self, data: Any, steps: Mapping[str, Path]) -> None:
        self._data = data
        self._steps = steps

    def _at(self, path: Path) -> Any:
        found = self._data
        for part in path:
            found = found[part]
        return found

    def has(self, path: Path) -> bool:
        try:
            self._at(path)
        except (KeyError, TypeError):
            return False
        return True

    def step(self, name: str) -> Path:
        return self._steps[name]

    def arc(self, step: str, index: int) -> Path:
        return (*self._steps[step], "next", "arcs", index)

    def task(self, step: str, index: int) -> Path:
        path: Path = (*self._steps[step], "tool")
        tool = self._at(path)
        if isinstance(tool, dict):
            return path
        item = tool[index]
        labelled = "name" not in item and "kind" not in item and len(item) == 1
        return (*path, index, next(iter(item))) if labelled else (*path, index)

    def own(self, step: str, index: int, key: str, value: Any) -> Path | None:
        """The place of a task's key with this very value; in a document with errors there may be none."""
        try:
            path = (*self.task(step, index), key)
            return path if self._at(path) is value else None
        except (LookupError, TypeError, AttributeError, StopIteration):
            return None

    def rule(self, step: str, task: int, index: int) -> Path:
        return (*self.task(step, task), "spec", "policy", "rules", index)

    def then(self, step: str, task: int, index: int) -> Path:
        path = self.rule(step, task, index)
        inner = isinstance(self._at(path).get("else"), dict)
        return (*path, "else", "then") if inner else (*path, "then")


def listed(names: Sequence[str]) -> str:
    return ", ".join(short(name) for name in names[:LISTED]) + (" …" if len(names) > LISTED else "")
