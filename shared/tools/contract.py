"""The tool contract: one file per kind, one line in `registry.py`. What a kind is called and which keys
it takes is a `ToolSpec`; what it does is a `Tool`."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from shared.dsl.kinds import KeySpec, ToolSpec
from shared.events.outcome import Outcome

__all__ = ["RESULT_LIMIT", "Call", "KeySpec", "Tool", "ToolOptions", "ToolSpec"]

RESULT_LIMIT = 32 * 1024 * 1024  # bytes of one result, whatever the kind


class Call(Struct, frozen=True):
    """One invocation, rendered. `config` are the task's own keys, `spec` its runtime knobs.

    `auth` is the resolved credential (`auth:` of the task), never logged. `idempotency_key` is the
    same on every repetition of the same attempt. `timeout_s` is what is left of the run's time.
    `secrets` are keychain values rendered into `config`: blanked out of whatever the tool says.
    """

    config: Mapping[str, Any]
    spec: Mapping[str, Any]
    auth: Mapping[str, Any] | None
    idempotency_key: str
    timeout_s: float
    secrets: Mapping[str, Any] = {}


class ToolOptions(Struct, frozen=True):
    """What a worker gives to the tools it opens. `temp_folder` empty: the system's own."""

    python_processes: int = 2
    temp_folder: str = ""


class Tool(Protocol):
    """`run` never raises for a failure of the call: that is an error Outcome whose `error` has `kind`,
    `message` and `retryable`. Cancelling `run` stops the work. `close` releases everything."""

    async def run(self, call: Call) -> Outcome: ...

    async def close(self) -> None: ...
