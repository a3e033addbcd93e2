"""Who holds a run, according to the log."""

from shared.engine.leases.fence import is_outranked
from shared.errors import Signal, Unavailable
from shared.events.record import Epoch, Lease


class Fenced(Signal):
    """The run is over, or a later lease holds it. Unless that lease has this very command, nobody needs the
    command, and it would only keep a later one of the run out of the queue."""

    def __init__(self, *, needless: bool) -> None:
        super().__init__("over, or under another command" if needless else "held by a later lease")
        self.needless = needless


def check(lease: Lease, known: Epoch, *, over: bool) -> None:
    """Raises Fenced if the lease is not the one that continues. `known` is the highest epoch in the log."""
    if over or is_outranked(lease, known):
        raise Fenced(needless=over or known[0] > lease.epoch[0])


def check_claim(lease: Lease, known: Epoch) -> None:
    """After the claim. A replica may lag behind; one that has the claim has all before it."""
    if known < lease.epoch:
        raise Unavailable("the log does not show this worker's own claim yet")
