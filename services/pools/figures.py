"""What the pools service that leads tells of each pool: what its reconciler saw at its last look. Nobody is asked for
it; what was seen long ago is not told.

How long the first command waits the broker says only to those who read the command, which is none of this service's
business. So it is the time for which the queue has not moved: since it was empty, or a command of it was delivered. It
is the least that the first one has waited.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from shared.bus.pool_consumer import Queue
from shared.bus.ports import Clock
from shared.events.beat import Beat
from shared.runtime.service import metric_names as names
from shared.runtime.service.metrics import Sample

OLD_S = 15.0


class Seen(Struct, frozen=True):
    queue: Queue | None
    demand: int | None
    beats: Sequence[Beat]
    wanted: int
    state: str
    crashes: int
    since: float  # the queue has not moved since
    at: float


class Figures:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, Seen] = {}

    def saw(
        self, pool: str, queue: Queue | None, demand: int | None, beats: Sequence[Beat], *, wanted: int, state: str,
        crashes: int,
    ) -> None:
        now, before = self._clock.now(), self._seen.get(pool)
        was = before.queue if before is not None else None
        moved = queue is None or was is None or not queue.pending or queue.last != was.last
        since = now if moved or before is None else before.since
        self._seen[pool] = Seen(queue, demand, beats, wanted, state, crashes, since, now)

    def keep(self, pools: set[str]) -> None:
        """The others are gone."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in pools}

    def samples(self, *, leads: bool) -> Iterator[Sample]:
        yield Sample(names.LEADS, leads)
        now = self._clock.now()
        for pool, seen in self._seen.items():
            if leads and now - seen.at <= OLD_S:
                yield from _of_pool(pool, seen, now)


def _of_pool(pool: str, seen: Seen, now: float) -> Iterator[Sample]:
    label = (pool,)
    if seen.queue is not None:
        yield Sample(names.POOL_PENDING, seen.queue.pending, label)
        yield Sample(names.POOL_IN_FLIGHT, seen.queue.in_flight, label)
        yield Sample(names.POOL_OLDEST, now - seen.since if seen.queue.pending else 0.0, label)
    if seen.demand is not None:
        yield Sample(names.POOL_DEMAND, seen.demand, label)
    yield Sample(names.POOL_WORKERS, len(seen.beats), label)
    yield Sample(names.POOL_WANTED, seen.wanted, label)
    yield Sample(names.POOL_SLOTS, sum(beat.slots for beat in seen.beats), label)
    yield Sample(names.POOL_TAKEN, sum(len(beat.held) for beat in seen.beats), label)
    yield Sample(names.POOL_CRASHES, seen.crashes, label)
    yield Sample(names.POOL_STATE, 1, (pool, seen.state))
