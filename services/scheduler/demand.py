"""Says how many commands this scheduler holds back, by pool: they are in no queue, and without them the backlog of a
pool with one long loop would look like a few commands.

1. Once a second at most, and only when it has changed. A change that counts, by over a twentieth of what was said last,
   is said within SOON_S: a pool that is quick empties a backlog in seconds, and whoever scales by an old figure
   overshoots.
2. What is not zero is said again every REPEAT_S: a listener that has just come, or missed a word, knows by then. What
   is not said any more is forgotten (`shared/runtime/stores/demand.py`), so a scheduler that died counts for nothing.
3. While nothing is held nothing is said: at rest it costs nothing.
"""

from collections.abc import Callable
from contextlib import suppress

from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.events import demand, subjects

EVERY_S, SOON_S = 1.0, 0.2
REPEAT_S = 3.0
PART, FEW = 0.05, 10  # a change of so much of the last figure counts, and of more than a few


class Demand:
    def __init__(self, bus: Bus, clock: Clock, instance: str, held: Callable[[], dict[str, int]]) -> None:
        self._bus, self._clock, self._instance, self._held = bus, clock, instance, held
        self._said: dict[str, int] = {}
        self._said_at = 0.0

    async def run(self) -> None:
        """For ever; cancel to stop."""
        while True:
            await self._clock.sleep(SOON_S if self._said else EVERY_S)
            await self.look()

    async def look(self) -> None:
        held, since = self._held(), self._clock.now() - self._said_at
        is_news = held != self._said and (since >= EVERY_S or self._counts(held))
        if is_news or (held and since >= REPEAT_S):
            await self._say(held)

    def _counts(self, held: dict[str, int]) -> bool:
        said = self._said
        return any(abs(held.get(pool, 0) - said.get(pool, 0)) > max(FEW, PART * said.get(pool, 0))
                   for pool in {*held, *said})

    async def close(self) -> None:
        """Others hold it now."""
        if self._said:
            await self._say({})

    async def _say(self, held: dict[str, int]) -> None:
        with suppress(NoetlError):  # said again
            await self._bus.publish(subjects.demand(self._instance), demand.encode(self._instance, held))
            self._said, self._said_at = held, self._clock.now()
