"""How often an execution is decided whose templates are costly: no faster than its share of the service.

What is decided does not change, only when: a decision counts its own units (`template_budget`) and nothing else, so
whoever makes it again from the log gets the same result.
"""

import asyncio

from shared.bus.ports import Clock
from shared.dsl.templates.budget import MAX_DECISION_WORK, Budget

SHARE = 1_000_000            # units of templates that an execution has in a second: a twentieth of a service
BURST = 2 * MAX_DECISION_WORK  # that it may be ahead
HEAVY = MAX_DECISION_WORK // 10  # units after which others get their turn first


class Pace(Budget):
    """Of one execution: what it is `ahead` of its share, as of `at`. Entered, it counts what is evaluated within, also
    what gave no result: it was work as well. (A budget that is there for every turn: none has to be made for it.)"""

    __slots__ = ("_now", "ahead", "at", "heavy")

    def __init__(self) -> None:
        super().__init__(None)
        self.ahead = self.at = self._now = 0.0
        self.heavy = False

    def counting(self, now: float) -> "Pace":
        """Around work that begins now."""
        self._now, self.used = now, 0
        return self

    def __exit__(self, *_: object) -> None:
        Budget.__exit__(self)
        units = self.used
        if units or self.ahead:
            self.ahead, self.at = self._left(self._now) + units, self._now
        self.heavy = units > HEAVY

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
        return max(0.0, self.ahead - SHARE * max(0.0, now - self.at)) if self.ahead else 0.0
