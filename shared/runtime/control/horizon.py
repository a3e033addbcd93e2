"""Up to where in the log others may have acted before.

An earlier owner of the partition may have sent what follows from a record, and a worker may have it. Only of
what comes after the horizon is it certain that nobody has: its commands are fresh, and need no look into the log."""

import structlog

from shared.bus.ports import Bus, Clock
from shared.errors import Unavailable
from shared.events.command import FRESH_S
from shared.events.stamp import stamp
from shared.runtime.control.load_pacing import BACKOFF_S

log = structlog.get_logger()


class Horizon:
    """`seq` is what the log held when its follower began or lost sight of it."""

    def __init__(self, bus: Bus, clock: Clock, stream: str) -> None:
        self._bus, self._clock, self._stream = bus, clock, stream
        self._connections = bus.connections
        self.seq = 0

    async def look(self) -> None:
        self._connections = self._bus.connections
        while True:
            try:
                self.seq = max(self.seq, await self._bus.last_seq(self._stream))
                return
            except Unavailable as error:
                log.warning("stream.waits", stream=self._stream, error=str(error))
                await self._clock.sleep(BACKOFF_S[-1])

    async def look_if_lost(self) -> None:
        """While there was no connection, another instance may have owned the partition for a while."""
        if self._bus.connections != self._connections:
            await self.look()

    def fresh_times(self) -> tuple[str, str]:
        """The times of records that can be new; the broker's clock may have been set back."""
        now = self._clock.now()
        return stamp(now - FRESH_S), stamp(now + FRESH_S)

    def pass_old(self, seq: int) -> None:
        """A record with another time than that."""
        self.seq = max(self.seq, seq)
