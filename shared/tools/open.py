"""The tools of one worker, opened on first use."""

from shared.dsl.kinds import ToolSpec
from shared.tools import registry
from shared.tools.contract import Tool, ToolOptions


class Tools:
    def __init__(self, options: ToolOptions) -> None:
        self._options = options
        self._open: dict[str, Tool] = {}

    def spec(self, kind: str) -> ToolSpec:
        return registry.specs()[kind]

    def pure(self, kind: str) -> bool:
        return self.spec(kind).pure

    def get(self, kind: str) -> Tool:
        tool = self._open.get(kind)
        if tool is None:
            tool = self._open[kind] = registry.open_tool(kind, self._options)
        return tool

    async def close(self) -> None:
        for tool in self._open.values():
            await tool.close()
        self._open.clear()
