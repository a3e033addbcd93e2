"""The lines on which the parts of a compiled playbook are in its source. A plan itself keeps only those of steps."""

from collections.abc import Mapping

from shared.dsl.check.plan_paths import Sites
from shared.dsl.lower.lower import lower
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Document, Path


class Lines:
    """Of a source that compiles; a generated part has the line of what it was made from."""

    def __init__(self, source: str | bytes, kinds: Mapping[str, ToolSpec]) -> None:
        document, _ = load(source)
        assert document is not None
        self._document: Document = lower(document, kinds).document
        data = self._document.data
        self._sites = Sites(data, {step["step"]: ("workflow", index) for index, step in enumerate(data["workflow"])})

    def step(self, name: str) -> int:
        return self._line(self._sites.step(name))

    def arc(self, step: str, index: int) -> int:
        return self._line(self._sites.arc(step, index))

    def rule(self, step: str, task: int, index: int) -> int:
        return self._line(self._sites.rule(step, task, index))

    def admission(self, step: str, index: int) -> int:
        return self._line((*self._sites.step(step), "spec", "policy", "admit", "rules", index))

    def compensation(self, step: str) -> int:
        path: Path = (*self._sites.step(step), "spec", "policy", "compensate")
        return self._document.key(path).line

    def _line(self, path: Path) -> int:
        return self._document.node(path).position.line
