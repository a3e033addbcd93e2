"""Whether this worker may have been away, stopped or cut off, for so long that its leases were lost.

A lease lasts COMMAND_LEASE_S and is extended every third of it, so a worker whose beats the broker
confirmed at least that often has lost none. After an absence a run asks the log before it goes on.
"""

from shared.bus import topology
from shared.bus.ports import Clock

AWAY_S = topology.COMMAND_LEASE_S / 3


class Presence:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._confirmed = clock.now()
        self._absences = 0

    def confirm(self) -> None:
        """The broker has just answered."""
        self.absences()
        self._confirmed = self._clock.now()

    def absences(self) -> int:
        """How many so far; one that is over is noticed here as well, whoever runs first after it."""
        now = self._clock.now()
        if now - self._confirmed > AWAY_S:
            self._absences += 1
            self._confirmed = now
        return self._absences
