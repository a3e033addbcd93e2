"""The course of a drain: nothing more is delivered, and what is held is waited for until the time is over."""

from collections.abc import Sequence

from msgspec.structs import replace

from shared.bus.pool_consumer import Queue
from shared.bus.ports import Clock
from shared.engine.pools import reconcile as engine
from shared.events.beat import Beat
from shared.runtime.stores.pools import DrainStatus, Entry, Status

IDLE_S = 3.5  # two beats: by then a worker has said what it took before the delivery stopped


class Drains:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._idle: dict[str, float] = {}  # since when the workers of a pool hold nothing

    def advance(
        self, name: str, entry: Entry, before: Status, queue: Queue | None, beats: Sequence[Beat]
    ) -> DrainStatus | None:
        """How far the drain is; None when none is wanted."""
        if entry.drain is None:
            self._idle.pop(name, None)
            return None
        known = before.drain
        if known is None or known.at != entry.drain.at:
            self._idle.pop(name, None)
            known = DrainStatus(entry.drain.at, queue.in_flight if queue is not None else 0)
        if known.over:
            return known
        late = self._clock.now() >= entry.drain.at + entry.drain.timeout_s
        idle = self._is_idle(name, beats)
        return replace(known, over=late or idle or queue is None or queue.in_flight == 0)

    def _is_idle(self, name: str, beats: Sequence[Beat]) -> bool:
        """For long enough to be sure of it."""
        if any(beat.held for beat in beats):
            self._idle.pop(name, None)
            return False
        now = self._clock.now()
        return now - self._idle.setdefault(name, now) > IDLE_S

    def reported(self, drain: DrainStatus, queue: Queue | None, beats: Sequence[Beat]) -> DrainStatus:
        """`beats` are of workers that this service does not end. Reported once: what comes later has nothing to do with
        it."""
        if drain.report is not None:
            return drain
        held, in_flight = sum(len(beat.held) for beat in beats), queue.in_flight if queue is not None else 0
        return replace(drain, report=engine.drained(drain.before, in_flight, held))
