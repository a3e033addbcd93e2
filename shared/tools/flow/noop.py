"""`noop`: does nothing and answers with its `args`; its rules do the work (V10 §7.1)."""

import msgspec

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base import json_value
from shared.tools.base.contract import Call, KeySpec, ToolSpec

SPEC = ToolSpec(
    kind="noop",
    doc="Does nothing. Its result is `args`, rendered, or nothing.",
    keys={"args": KeySpec("The value to answer with; rules read it as `outcome.result`.")},
    pure=True,
)


_encode = msgspec.json.Encoder().encode


def answer(call: Call) -> Outcome:
    """What templates computed may be no JSON: the log would have null in its place."""
    args = call.config.get("args")
    if args and (where := json_value.lost(args, _encode(args))):
        return failed("result", f"the result is not JSON: {where}")
    return ok(args)
