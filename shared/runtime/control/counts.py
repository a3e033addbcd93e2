"""What router and scheduler count while they work, over all their partitions (`shared/runtime/service/metrics.py`)."""

import time
from bisect import bisect_left
from collections.abc import Sequence

from shared.bus.ports import Message
from shared.engine.core import Core, Drafting, S
from shared.runtime.control.actor import Actor
from shared.runtime.control.turn import Ready, made_ready
from shared.runtime.service.durations import BOUNDS, Durations


class Counts:
    """`deciding`: turns of executions; `reading`: from when the broker had the first record of a batch until it is
    taken."""

    __slots__ = ("aside", "conflicts", "deciding", "read", "reading", "written")

    def __init__(self) -> None:
        self.read = self.written = self.conflicts = self.aside = 0
        self.deciding, self.reading = Durations(), Durations()

    def took(self, batch: Sequence[Message], now: float) -> None:
        self.read += len(batch)
        if batch and batch[0].at:
            self.reading.add(max(0.0, now - batch[0].at / 1e9))

    def decided(
        self, core: Core[S], actor: Actor[S], now: float, horizon: int, drafting: Drafting[S] | None
    ) -> Ready[S] | None:
        """`made_ready`, with the time it took."""
        began = time.perf_counter()
        try:
            return made_ready(core, actor, now, horizon, None, drafting)
        finally:
            took, deciding = time.perf_counter() - began, self.deciding  # `add`, without a call for each turn
            deciding.counts[bisect_left(BOUNDS, took)] += 1
            deciding.total += took
