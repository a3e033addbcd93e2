"""How many workers a pool should have for its demand. Pure.

1. One worker for every `target` of the demand, rounded up, between `least` and `most`. Any demand is at least one
   worker, so a pool at zero starts.
2. Up at once. Down only to the most that was needed at any moment of the last `calm_s`: a demand that comes in bursts
   does not end workers that the next burst starts again.
3. A demand that is not known changes nothing.

What was needed lately is a `Trail`: only moments after which less was needed matter, so it is no longer than a pool has
workers.
"""

from msgspec import Struct


class Scaling(Struct, frozen=True):
    """`target`: commands for each worker."""

    least: int
    most: int
    target: int
    calm_s: float


class Need(Struct, frozen=True):
    at: float
    workers: int


Trail = tuple[Need, ...]  # by time, and each needs fewer than the one before it


def needed(scaling: Scaling, demand: int) -> int:
    wanted = -(-demand // scaling.target)
    return max(scaling.least, min(scaling.most, wanted))


def begin(scaling: Scaling, workers: int, now: float) -> Trail:
    """Of a pool that has so many: a new reconciler does not know why, and takes it that they were needed until now."""
    return (Need(now, max(scaling.least, min(scaling.most, workers))),)


def follow(scaling: Scaling, trail: Trail, demand: int, now: float) -> Trail:
    """The trail with what is needed now; the first of it is how many workers there should be."""
    need = needed(scaling, demand)
    kept = [each for each in trail if each.workers > need and now - each.at < scaling.calm_s]
    return (*kept, Need(now, need))
