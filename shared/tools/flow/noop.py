"""`noop`: does nothing and answers with its `args`; its rules do the work (V10 §7.1)."""

from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec

SPEC = ToolSpec(
    kind="noop",
    doc="Does nothing. Its result is `args`, rendered, or nothing.",
    keys={"args": KeySpec("The value to answer with; rules read it as `outcome.result`.")},
    pure=True,
)


def answer(call: Call) -> Outcome:
    return ok(call.config.get("args"))


class NoopTool:
    def __init__(self, _options: ToolOptions) -> None:
        """Nothing to open."""

    async def run(self, call: Call) -> Outcome:
        return answer(call)

    async def close(self) -> None:
        """Nothing to release."""
