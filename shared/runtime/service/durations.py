"""How long something took, counted by buckets: a histogram that costs next to nothing where it is kept."""

from bisect import bisect_left
from itertools import accumulate

BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
)


class Durations:
    """`counts` of those within each bound and over the one before; the last one is of those beyond all bounds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def copy(self) -> "Durations":
        made = Durations()
        made.counts, made.total = self.counts[:], self.total
        return made

    def up_to(self) -> list[tuple[str, int]]:
        """How many took no longer than each bound, as a histogram is told."""
        return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(self.counts), strict=True))
