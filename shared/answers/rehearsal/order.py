"""What happens next of all that can: a chooser decides, by order or by a seed. There is no randomness in the core, so
a seed is spread with a hash."""

import hashlib
from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

Act = Literal["input", "place", "router", "scheduler", "stop", "take", "work"]


class Ready(Struct, frozen=True):
    """Something that can happen now: news from outside, a place that is given by time, a decider's turn, a run that is
    told to stop, a command that is taken, a run that continues under a lease. `since`: when it could have happened
    first."""

    act: Act
    since: float
    run_id: str = ""
    index: int = -1
    lease: int = 0


class Chooser(Protocol):
    def choose(self, ready: Sequence[Ready], now: float) -> int | None:
        """The next of them; None: time passes first, if anything is due."""

    def due(self, now: float) -> float | None:
        """When it wants to be asked again, whatever else is due."""

    def portion(self, act: Act, times: Sequence[float]) -> int:
        """How many of the records that a decider has not read, written at these times, it gets to see."""

    def made(self, act: Act) -> None:
        """A decider made a decision."""


class FirstReady:
    """First ready, first done; deciders see everything."""

    def choose(self, ready: Sequence[Ready], now: float) -> int | None:
        return 0 if ready else None

    def due(self, now: float) -> float | None:
        return None

    def portion(self, act: Act, times: Sequence[float]) -> int:
        return len(times)

    def made(self, act: Act) -> None:
        """Nothing depends on it."""


class Dice:
    """The same numbers for the same seed."""

    def __init__(self, seed: object) -> None:
        self._seed, self._thrown = str(seed), 0

    def below(self, count: int) -> int:
        self._thrown += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._thrown}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % count

    def chance(self, odds: float) -> bool:
        return odds > 0 and self.below(1_000_000) < odds * 1_000_000


class Seeded(FirstReady):
    """Anything that is ready may come next, and deciders see any part of what they have not read."""

    def __init__(self, seed: object) -> None:
        self._dice = Dice(f"order {seed}")

    def choose(self, ready: Sequence[Ready], now: float) -> int | None:
        return self._dice.below(len(ready)) if ready else None

    def portion(self, act: Act, times: Sequence[float]) -> int:
        return 1 + self._dice.below(len(times))
