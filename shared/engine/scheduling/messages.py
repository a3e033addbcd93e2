"""The messages that the scheduler sends. Each follows from the log, so that it can be derived and sent again."""

from msgspec import Struct

from shared.engine.scheduling.limits import Want
from shared.events.command import Command
from shared.events.request import Control, Request
from shared.events.stop import Stop


class Free(Struct, frozen=True, gc=False):
    """No worker holds the run, or the iteration, now: it has ended or, if `parked`, waits. Without an index this holds
    for the run and all its iterations; without a run, for everything of the execution."""

    execution_id: str
    run_id: str = ""
    index: int | None = None
    parked: bool = False


# `Want` and `Free` stay inside the scheduler: who wants a place, and whose place or worker is free again.
Message = Command | Request | Control | Stop | Free | Want
