"""Which workers are alive, according to their beats and to those who know more, and what the dead ones held.

A worker is dead when
    its supervisor says so    it saw the process exit
    its key is deleted        by the worker itself: one that stops in order first says that it holds nothing
    its connection closed     and no beat came for CLOSED_S: one that reconnects beats at once
    a later life beats        under the same name: the earlier one is over
    it is silent              no beat for SILENT_S of the time in which beats would have been heard

A worker that is considered dead and is not does no harm: what it held is issued again under a higher epoch, and it is
fenced. It costs a repeated call.
"""

from collections.abc import Iterator

from msgspec import Struct

from shared.events.beat import Beat, Key

CLOSED_S = 1.0
SILENT_S = 4.5  # three beats


class Gone(Struct, frozen=True):
    """A worker that is over: the messages it held, and how that is known."""

    worker: str
    pool: str
    why: str
    runs: dict[Key, int]


class Life:
    __slots__ = ("beat", "silent")

    def __init__(self, beat: Beat) -> None:
        self.beat = beat
        self.silent = 0.0


class Lives:
    def __init__(self) -> None:
        self._lives: dict[str, Life] = {}

    def heard(self, name: str, beat: Beat) -> Gone | None:
        """What an earlier life under this name held. A late beat of an earlier life is ignored: otherwise two workers
        under one name would each end the other's life with every beat."""
        known = self._lives.get(name)
        if known is not None and beat.started < known.beat.started:
            return None
        self._lives[name] = Life(beat)
        if known is not None and beat.started > known.beat.started:
            return _gone(name, known, "started again")
        return None

    def ended(self, name: str, why: str = "ended") -> Gone | None:
        life = self._lives.pop(name, None)
        return None if life is None else _gone(name, life, why)

    def mark(self, name: str) -> Life | None:
        """An object that stands for what is known now; after the next beat it is another one."""
        return self._lives.get(name)

    def listened(self, seconds: float) -> Iterator[Gone]:
        for name, life in list(self._lives.items()):
            life.silent += seconds
            if life.silent > SILENT_S:
                del self._lives[name]
                if (gone := _gone(name, life, "silent")) is not None:
                    yield gone

    def holds(self, pool: str, key: Key) -> bool:
        """A worker of another pool cannot hold it, whatever it says."""
        return any(life.beat.pool == pool and key in life.beat.held for life in self._lives.values())


def _gone(name: str, life: Life, why: str) -> Gone | None:
    runs = dict(zip(life.beat.held, life.beat.seqs, strict=False))
    return Gone(name, life.beat.pool, why, runs) if runs else None
