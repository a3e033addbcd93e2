"""Who holds a run, according to the log."""

from shared.engine.leases.fence import is_outranked
from shared.errors import Signal, Unavailable
from shared.events.record import Epoch, Lease


class Fenced(Signal):
    """The run is over, or a later lease has it. Unless that lease has this very command, the command is `needless`: it
    would only keep a later one of the run out of the queue. It is `idle` if that lease has ended and the run is not
    over: then the command waits for somebody to take it."""

    def __init__(self, *, needless: bool, idle: bool = False) -> None:
        said = "handed back under a later lease" if idle else "held by a later lease"
        super().__init__("over, or under another command" if needless else said)
        self.needless, self.idle = needless, idle and not needless


def check(lease: Lease, known: Epoch, *, over: bool, held: bool) -> None:
    """Raises Fenced if the lease is not the one that continues. `known` is the highest epoch in the log; `held`: its
    lease has not ended."""
    if over or is_outranked(lease, known):
        raise Fenced(needless=over or known[0] > lease.epoch[0], idle=not held)


def check_claim(lease: Lease, known: Epoch) -> None:
    """After the claim. A replica may lag behind; one that has the claim has all before it."""
    if known < lease.epoch:
        raise Unavailable("the log does not show this worker's own claim yet")
