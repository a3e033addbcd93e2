"""How many dead letters one pool, trigger or client may cause in an hour. The stream of letters keeps a limited number:
whoever has a pool's credentials, or may publish requests, could otherwise push out earlier ones with invented ones, and
keep the services busy. What is beyond it is a line of the service's log, and one letter says that there are more."""

from collections.abc import Callable

import structlog

from shared.bus import dead_letters
from shared.bus.ports import Bus

log = structlog.get_logger()
MAX_LETTERS = 100   # of one origin about one pool or trigger in an hour, by each service
MAX_REQUESTS = 300  # about requests, which do not say whose they are
MAX_OWNERS = 10_000
HOUR_S = 3600.0


class Quota:
    """`now` in seconds, of any clock."""

    def __init__(self, now: Callable[[], float], origin: str, most: int = MAX_LETTERS) -> None:
        self._now, self.origin, self._most = now, origin, most
        self._told: dict[str, tuple[int, int]] = {}  # by owner: the hour, and the letters in it
        self._untold: dict[str, int] = {}  # by owner: the hour of which it is to be told that letters are left out

    def take(self, owner: str) -> bool:
        """Whether one more letter may be written."""
        hour = int(self._now() // HOUR_S)
        told_in, count = self._told.get(owner, (hour, 0))
        count = count if told_in == hour else 0
        if len(self._told) > MAX_OWNERS:
            self._told.clear()
            self._untold.clear()
        self._told[owner] = hour, count + 1
        if count == self._most:
            self._untold[owner] = hour
            log.error("letters.over", origin=self.origin, pool=owner, limit=self._most)
        return count < self._most

    async def tell_over(self, bus: Bus, owner: str) -> None:
        """Once an hour, for people: that letters are left out. To be called when `take` has said so."""
        hour = self._untold.get(owner)
        if hour is None:
            return
        whose = f"{self.origin} of {owner}" if owner else self.origin
        reason = f"over {self._most} letters of {whose} in an hour: the others are lines of the service's log alone"
        await dead_letters.bury(bus, dead_letters.LEFT_OUT, f"{whose}, hour {hour}", reason, owner=owner or self.origin)
        if self._untold.get(owner) == hour:
            del self._untold[owner]
