"""Machines whose clock is wrong: nothing is decided by it, but people, logs and certificates go by it."""

from collections.abc import Iterator

from shared.answers.why.facts import Reason, World
from shared.answers.why.remedies import remedy

OFF_S = 1.0


def skewed(world: World) -> Iterator[Reason]:
    """Of the workers this execution's commands go to, and of the control services that were heard."""
    known = {f"worker {worker.name}": worker.skew for worker in world.workers if worker.pool in world.pools}
    for whose, ahead in sorted({**known, **world.skews}.items()):
        if abs(ahead) >= OFF_S:
            yield Reason(
                "clock.skewed", "note", f"the clock of the machine of {whose} is {abs(ahead):.0f} s "
                f"{'ahead of' if ahead > 0 else 'behind'} the broker's: the engine goes by the broker's, logs do not",
                values={"process": whose, "ahead_s": ahead}, remedy=remedy("set_clock"),
            )
