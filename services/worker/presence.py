"""Whether this worker may have been away, stopped or cut off, for so long that others have its runs.

A scheduler gives the runs of a worker to others when it has missed three beats in a row, and a lease that
is not extended is lost after COMMAND_LEASE_S. So a worker whose beats the broker confirmed at least every AWAY_S has
lost nothing. After an absence a run asks the log before it continues; for the time of one lease it does so before every
effect, because another worker may have been given the run and not have claimed it yet.
Time is that of the event loop, which nobody sets.
"""

from collections.abc import Callable

from shared.bus import topology

BEAT_S = 1.5
AWAY_S = 2 * BEAT_S
DOUBT_S = topology.COMMAND_LEASE_S


class Presence:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._confirmed = now()
        self._absences = 0
        self._back = float("-inf")
        self._is_away = False
        self.returns = 0  # absences that have ended with an answer of the broker

    def confirm(self) -> None:
        """The broker has just answered."""
        self.absences()
        self._confirmed = self._now()
        self.returns += self._is_away
        self._is_away = False

    def absences(self) -> int:
        """How many there were so far. Whatever code runs first after an absence notices it here."""
        now = self._now()
        if now - self._confirmed > AWAY_S:
            self._absences += 1
            self._confirmed = self._back = now
            self._is_away = True
        return self._absences

    def was_away(self) -> bool:
        """Whether the broker, for all this worker knows, did not answer within the last lease."""
        return self.absences() > 0 and self._now() - self._back < DOUBT_S

    def doubts(self, mark: int) -> bool:
        """Whether a run that came when there were `mark` absences may be with a worker that has not claimed it yet."""
        return self.absences() != mark and self._now() - self._back < DOUBT_S
