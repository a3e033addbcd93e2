"""The condition a parked call is waiting on."""

from typing import Any

from msgspec import Struct

from shared.events.fields import Child


class Waits(Struct, frozen=True):
    """The call is parked without a worker until the child has ended or the signal has come, at the latest after
    `timeout_s`; or, when there is neither, until a time (RFC 3339) or for some seconds."""

    child: Child | None = None
    signal: str = ""
    schema: dict[str, Any] = {}
    timeout_s: float | None = None
    until: str = ""
    for_s: float = 0.0
