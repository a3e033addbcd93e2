"""The tools of one worker, opened on first use."""

from collections.abc import Collection

from shared.dsl.model.tool_spec import ToolSpec
from shared.events.beat import Busy
from shared.events.failure import DISABLED
from shared.events.outcome import Outcome, failed
from shared.tools import registry
from shared.tools.base.contract import Call, Tool, ToolOptions
from shared.tools.base.turns import Turns


class Disabled:
    """Stands in for a tool that this worker may not use."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def run(self, call: Call) -> Outcome:
        return failed(DISABLED, f"kind {self._kind} is switched off on this worker (NOETL_TOOLS_DISABLED)")

    async def close(self) -> None:
        """Nothing was opened."""


class Tools:
    """`under_way` counts the calls that run now; whoever calls keeps it."""

    def __init__(self, options: ToolOptions, disabled: Collection[str] = ()) -> None:
        """`disabled` are the kinds whose every call is refused."""
        self._options = options
        self._disabled = frozenset(disabled)
        self._open: dict[str, Tool] = {}
        self._turns = {kind: Turns(kind, size) for kind, size in registry.turns(options).items()
                       if kind not in self._disabled}
        self.under_way = 0

    def spec(self, kind: str) -> ToolSpec:
        return registry.specs()[kind]

    def pure(self, kind: str) -> bool:
        return self.spec(kind).pure

    def turns(self, kind: str) -> Turns | None:
        """Of a kind that can make only so many calls at a time."""
        return self._turns.get(kind)

    def busy(self) -> list[Busy]:
        return [turns.busy() for turns in self._turns.values()]

    def get(self, kind: str) -> Tool:
        tool = self._open.get(kind)
        if tool is None:
            opened = Disabled(kind) if kind in self._disabled else registry.open_tool(kind, self._options)
            tool = self._open[kind] = opened
        return tool

    async def close(self) -> None:
        for tool in self._open.values():
            await tool.close()
        self._open.clear()
