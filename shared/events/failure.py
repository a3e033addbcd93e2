"""What a failure is, and the kinds that the engine gives.

On the wire a failure is a mapping, the `error` of an outcome or of an event. Templates read it, and a rule may put any
mapping of an author in its place: what is made here has all that it should have, what is read may have none of it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.errors import OverLimit, TemplateError, Unreadable

# The kinds that the engine gives; a tool adds kinds of its own. docs/dsl.md has the same list for authors.
TEMPLATE = TemplateError.kind  # an expression failed
LIMIT = OverLimit.kind         # something is over a bound or a budget
TIMEOUT = "timeout"            # it was not over in time
CANCELLED = "cancelled"        # it was stopped, because someone asked for it or because its execution ended
WORKER_LOST = "worker_lost"    # too many leases of the run were lost in a row
UNREADABLE = Unreadable.kind   # a stored value is not what the log refers to, or gone for good
INTERNAL = "internal"          # a fault of the worker or of a tool
POLICY = "policy"              # a rule says fail, and there is no error that says more
ASSERT = "assert"              # a task lacks a name that it must be called with or must return
LOOP = "loop"                  # a loop cannot start or continue with what it was given
CTX = "ctx"                    # a write to ctx does not fit what is there
CTX_CONFLICT = "ctx_conflict"  # two iterations that run in parallel wrote the same key of ctx
PLAYBOOK = "playbook"          # a playbook that was called failed or was cancelled; its own error is under error
REQUEST = "request"            # the request cannot be carried out as it is
POOL = "pool"                  # a pool that the playbook asks for cannot be had
CAPACITY = "capacity"          # there is no room for another execution
CONFIG = "config"              # the call cannot be made as it is written
AUTH = "auth"                  # a credential is missing or is not taken
DECODE = "decode"              # what came back cannot be read
DISABLED = "disabled"          # the kind of tool is switched off on this worker

Error = dict[str, Any]


class Failure(Struct, frozen=True, gc=False):
    """Why something failed. What is not said (`retryable` of None, no `step`) does not stand in the log either."""

    kind: str
    message: str
    retryable: bool | None = None
    step: str = ""
    details: Mapping[str, Any] = {}

    def error(self) -> Error:
        """As it stands in the log, in this order: decisions of older logs are derived again and compared."""
        error: Error = {"kind": self.kind, "message": self.message}
        if self.retryable is not None:
            error["retryable"] = self.retryable
        if self.step:
            error["step"] = self.step
        error.update(self.details)
        return error


def kind_of(error: Mapping[str, Any] | None) -> object:
    """As it stands there, which is any value in an error of an author; None where there is none."""
    return error.get("kind") if error else None


def message_of(error: Mapping[str, Any] | None, otherwise: str = "") -> str:
    return str(error.get("message", otherwise)) if error else otherwise


def is_retryable(error: Mapping[str, Any] | None) -> bool:
    return bool(error and error.get("retryable"))


def shortened(error: Mapping[str, Any], most: int) -> Error:
    """Its kind, and as many characters of its message."""
    return {"kind": kind_of(error), "message": message_of(error)[:most]}
