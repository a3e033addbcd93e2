"""A store that accepts no writes: nothing continues, and everybody who says there that they are there falls silent."""

from msgspec.structs import replace

from shared.answers.why.facts import Answer, Reason
from shared.answers.why.remedies import remedy

# What is concluded from silence in the store. Routers and schedulers are heard without it.
SILENCE = frozenset({"pool.no_workers", "lease.silent", "router.silent", "scheduler.silent", "router.behind",
                     "scheduler.behind", "command.lost", "command.stranded"})


def explained(answer: Answer, error: str, *, first: bool = True) -> Answer:
    """`error` is why the broker does not write. `first`: it is said before all else."""
    if any(reason.kind == "over" for reason in answer.reasons):
        return answer
    reasons = tuple(_follows(reason) if reason.cause in SILENCE else reason for reason in answer.reasons)
    return replace(answer, reasons=(_refuses(error), *reasons) if first else reasons)


def _refuses(error: str) -> Reason:
    return Reason("store.refuses", "blocked", f"the broker's store accepts no writes, so nothing goes on: {error}",
                  values={"error": error}, remedy=remedy("make_room"))


def _follows(reason: Reason) -> Reason:
    """Whoever is silent may be there and only cannot say so."""
    text = reason.text
    if reason.cause == "pool.no_workers":
        text = f"no worker of pool {reason.values['pool']} is heard of: workers and the pools service say in the " \
            "store that they are there"
    return replace(reason, text=text, remedy=remedy("after_store"), moved_by="itself")
