"""What the scheduler sends when the log says so."""

from msgspec import Struct

from shared.engine.scheduling.limits import Want
from shared.events.command import Command
from shared.events.request import Control, Request
from shared.events.stop import Stop


class Free(Struct, frozen=True, gc=False):
    """No worker has the run, or the iteration, any more: it has ended or, `parked`, waits. Without an index: none
    of its iterations; without a run: nothing of the execution."""

    execution_id: str
    run_id: str = ""
    index: int | None = None
    parked: bool = False


# `Want` and `Free` are for the scheduler itself: who wants a place, and whose place or worker is free again.
Message = Command | Request | Control | Stop | Free | Want
