"""`noop`: does nothing and answers with its `args`; its rules do the work (V10 §7.1)."""

from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import Call, KeySpec, ToolSpec

SPEC = ToolSpec(
    kind="noop",
    doc="Does nothing. Its result is `args`, rendered, or nothing.",
    keys={"args": KeySpec("The value to answer with; rules read it as `outcome.result`.")},
    pure=True,
)


def answer(call: Call) -> Outcome:
    return ok(call.config.get("args"))
