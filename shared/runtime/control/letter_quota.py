"""How many dead letters one pool may cause. The stream of letters keeps a limited number: whoever has a pool's
credentials could otherwise push out the letters of others with invented ones."""

from collections.abc import Callable

import structlog

log = structlog.get_logger()
MAX_LETTERS = 100  # of one origin about one pool in an hour, by each service
HOUR_S = 3600.0


class Quota:
    """`now` in seconds, of any clock."""

    def __init__(self, now: Callable[[], float], origin: str) -> None:
        self._now, self._origin = now, origin
        self._told: dict[str, tuple[int, int]] = {}  # by pool: the hour, and the letters in it

    def take(self, pool: str) -> bool:
        """Whether one more letter may be written."""
        hour = int(self._now() // HOUR_S)
        told_in, count = self._told.get(pool, (hour, 0))
        count = count if told_in == hour else 0
        self._told[pool] = hour, count + 1
        if count == MAX_LETTERS:
            log.error("letters.over", origin=self._origin, pool=pool, limit=MAX_LETTERS)
        return count < MAX_LETTERS
