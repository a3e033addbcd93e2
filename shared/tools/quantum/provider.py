"""What a provider of quantum computers is to the tool (FX §11): jobs are submitted, asked for their state, and read.

A call may be made twice, and each of the three on another worker: `submit` with the same key is the same job, and its
id is all that `status` and `results` need to know.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from shared.tools.quantum.circuit import Circuit

State = Literal["QUEUED", "RUNNING", "DONE", "FAILED", "CANCELLED"]


class Job(Struct, frozen=True):
    """`key` is that of the call, the same on every repetition; `auth` is the resolved credential, if there is one."""

    circuit: Circuit
    shots: int
    key: str
    auth: Mapping[str, Any] | None = None


class Counts(Struct, frozen=True):
    """How often each outcome was measured: bits as text, the last classical bit first."""

    shots: int
    counts: dict[str, int]


class Provider(Protocol):
    """An id that the provider does not know is a `BadCall`; a server that cannot be reached is a `CallFailed` that may
    be tried again."""

    async def submit(self, job: Job) -> str: ...

    async def status(self, job_id: str, auth: Mapping[str, Any] | None) -> State: ...

    async def results(self, job_id: str, auth: Mapping[str, Any] | None) -> Counts: ...
