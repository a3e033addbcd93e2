"""How often an execution is decided whose templates are costly: no faster than its share of the service.

What is decided does not change, only when: a decision counts its own units (`template_budget`) and nothing else, so
whoever makes it again from the log gets the same result.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from shared.bus.ports import Clock
from shared.dsl.templates.budget import MAX_DECISION_WORK, shared_budget

SHARE = 1_000_000            # units of templates that an execution has in a second: a twentieth of a service
BURST = 2 * MAX_DECISION_WORK  # that it may be ahead
HEAVY = MAX_DECISION_WORK // 10  # units after which others get their turn first


class Pace:
    """Of one execution: what it has used ahead of its share, as of `at`."""

    __slots__ = ("at", "heavy", "used")

    def __init__(self) -> None:
        self.used = self.at = 0.0
        self.heavy = False

    @contextmanager
    def counting(self, clock: Clock) -> Iterator[None]:
        with shared_budget(None) as spent:
            try:
                yield
            finally:  # what gave no result was work as well
                now = clock.now()
                self.used = self._left(now) + spent.used
                self.at = now
                self.heavy = spent.used > HEAVY

    def is_over(self, now: float) -> bool:
        return self._left(now) > BURST

    async def rest(self, clock: Clock) -> None:
        """Until it has its share again; others get their turn at least."""
        while (over := self._left(clock.now()) - BURST) > 0:
            await clock.sleep(over / SHARE + 0.001)
        self.heavy = False
        await asyncio.sleep(0)

    async def give_way(self) -> None:
        if self.heavy:
            self.heavy = False
            await asyncio.sleep(0)

    def _left(self, now: float) -> float:
        """A clock that was set back reduces nothing."""
        return max(0.0, self.used - SHARE * max(0.0, now - self.at))
