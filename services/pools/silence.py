"""For how long each worker has said nothing, of the time in which it would have been heard: while this service, or the
broker, was away, nobody's silence grows. A beat is kept for a few seconds only, so what it said is remembered here."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from shared.bus import kv, topology
from shared.bus.ports import Bus, Clock
from shared.events import subjects
from shared.events.beat import Beat
from shared.runtime.stores.heartbeats import Unreadable, readable

GAP_S = 2.0  # at most this much of the time between two looks counts
Life = tuple[str, int]  # a worker's name, and its process


class Heard(Struct):
    """The last beat of a life: its place in the bucket, when it was seen, and how long it is ago."""

    seq: int
    at: float
    silent_s: float = 0.0


class Hearing:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock, self._unreadable = bus, clock, Unreadable()
        self._lives: dict[Life, Heard] = {}
        self._looked = clock.now()

    async def listen(self, ours: Collection[Life]) -> dict[str, list[Beat]]:
        """The beats that are there, by pool. Those of `ours` are remembered."""
        messages = await self._bus.read(kv.stream_of(topology.WORKERS), [subjects.key(topology.WORKERS)])
        places = {kv.key_of(topology.WORKERS, message.subject): message.seq for message in messages}
        found: dict[str, list[Beat]] = {}
        said: dict[Life, int] = {}
        for key, beat in readable(kv.entries(topology.WORKERS, messages), self._unreadable).items():
            found.setdefault(beat.pool, []).append(beat)
            said[beat.worker, beat.pid] = places[key]
        self._take({life: seq for life, seq in said.items() if life in ours})
        self._lives = {life: heard for life, heard in self._lives.items() if life in ours}
        return found

    def _take(self, said: Mapping[Life, int]) -> None:
        now = self._clock.now()
        passed, self._looked = min(max(0.0, now - self._looked), GAP_S), now
        for heard in self._lives.values():
            heard.silent_s += passed
        for life, seq in said.items():
            if life not in self._lives or self._lives[life].seq != seq:
                self._lives[life] = Heard(seq, now)

    def of(self, name: str, pid: int) -> Heard | None:
        """None: this life of it has not said anything yet."""
        return self._lives.get((name, pid))
