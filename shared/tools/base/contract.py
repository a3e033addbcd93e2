"""The tool contract: one file per kind, one line in `shared/tools/registry.py`. What a kind is called and which keys
it accepts is a `ToolSpec`; what it does is a `Tool`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.errors import Unavailable
from shared.events.fields import Stream
from shared.events.outcome import Outcome, Ref
from shared.events.waits import Waits

__all__ = ["RESULT_DEPTH", "RESULT_LIMIT", "Call", "Claiming", "KeySpec", "Printing", "Tool", "ToolOptions",
           "ToolSpec", "Waits"]

RESULT_LIMIT = 32 * 1024 * 1024  # bytes of one result, whatever the kind
RESULT_DEPTH = 100  # lists and mappings within each other in one result


class Printing:
    """What a call says that has not ended. `so_far` gives the last so many bytes of each stream, of a tool that can
    tell. `stopped`: the outcome of a call that was cut short and that nobody waits for any more, with what it had
    printed."""

    __slots__ = ("so_far", "stopped")

    def __init__(self) -> None:
        self.so_far: Callable[[int], Mapping[Stream, str]] | None = None
        self.stopped: Outcome | None = None


class Call(Struct, frozen=True):
    """One invocation, rendered. `config` are the task's own keys, `spec` its runtime knobs.

    `auth` is the resolved credential (`auth:` of the task), never logged. `idempotency_key` is the
    same on every repetition of the same attempt. `timeout_s` is what is left of the run's time.
    `secrets` are keychain values rendered into `config`. Whatever the tool says, the worker takes them, and the values
    of credentials, out of it.
    `credentials` are those that keys of the tool name, by path (`target.auth`), with the promises of `auth`.
    `auth_name` is what the task calls its credential, if it has one name: errors may say it.
    `printing` is for what it says before its end; nobody listens if there is none.
    """

    config: Mapping[str, Any]
    spec: Mapping[str, Any]
    auth: Mapping[str, Any] | None
    idempotency_key: str
    timeout_s: float
    secrets: Mapping[str, Any] = {}
    credentials: Mapping[str, Mapping[str, Any]] = {}
    auth_name: str = ""
    printing: Printing | None = None


async def no_store(ref: Ref) -> Any:
    """Where there are no stored results."""
    raise Unavailable(f"no store for {ref.key}")


class ToolOptions(Struct, frozen=True):
    """What a worker gives to the tools it opens. `temp_folder` empty: the system's own.
    `duckdb_extensions` empty: DuckDB's own folder, in the home of the user. `duckdb_files`: folders and addresses that
    SQL on DuckDB may use; empty: none. `scripts`: the folder of `script` files; empty: there are none.
    `quantum_stand_ins`: quantum providers for which the simulator stands in. `load` reads a stored result."""

    python_processes: int = 2
    temp_folder: str = ""
    duckdb_extensions: str = ""
    duckdb_files: tuple[str, ...] = ()
    scripts: str = ""
    quantum_stand_ins: tuple[str, ...] = ()
    load: Callable[[Ref], Awaitable[Any]] = no_store


class Tool(Protocol):
    """`run` never raises for a failure of the call: that is an error Outcome whose `error` has `kind`,
    `message` and `retryable`. Cancelling `run` stops the work. `close` releases everything."""

    async def run(self, call: Call) -> Outcome | Waits: ...

    async def close(self) -> None: ...


Keep = Callable[[Outcome], Awaitable[bool]]


@runtime_checkable
class Claiming(Protocol):
    """A tool that can give a loop its rows (`ToolSpec.claims`). `claim` makes the call in one transaction: `keep` gets
    its outcome before the commit, and says whether there is to be one."""

    async def claim(self, call: Call, keep: Keep) -> Outcome: ...
