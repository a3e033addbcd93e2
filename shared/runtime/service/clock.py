"""One clock for all services: the broker's, carried on by the host's monotonic clock.

1. What time it is follows from an answer of the broker and from the monotonic time that has passed since. The host's
   wall clock decides nothing: it is only compared, refused at the start when it is too far off, and reported.
2. An answer took a while, so it says no more than that the broker's time lay between the question and the answer. What
   lies within those bounds is not corrected.
3. `now` never goes back. A small difference is slewed: for a while, seconds are up to SLEW longer or shorter. One of
   more than STEP_S ahead is a host that slept or a broker whose clock was set: it is taken over at once.
4. While the broker does not answer, the monotonic clock continues alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import structlog
from msgspec import Struct

from shared.bus.ports import Bus
from shared.errors import NoetlError, Unavailable
from shared.events.stamp import stamp
from shared.runtime.service.supervisor import sleep_or_stop

FIRST = 5  # round trips at the start; the shortest counts
AGAIN_S = 5.0
SLEW = 0.1
STEP_S = 5.0
WAIT_S = 0.5
log = structlog.get_logger()


class WrongClock(NoetlError):
    """The host's clock is too far from the broker's."""


class Host(Protocol):
    """What a machine has: a wall clock that may be wrong and may jump, and time that passes."""

    def now(self) -> float: ...
    @property
    def monotonic(self) -> Callable[[], float]: ...
    async def sleep(self, seconds: float) -> None: ...


def _steady() -> Callable[[], float]:
    """Monotonic time that also passes while the machine sleeps, where there is such a clock."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # of Linux, and of macOS
        if (kind := getattr(time, name, None)) is not None:
            return partial(time.clock_gettime, kind)
    return time.monotonic


class SystemClock:
    """This machine's."""

    skew = 0.0

    def __init__(self) -> None:
        self.monotonic = _steady()

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Sample(Struct, frozen=True):
    """`offset` leads from monotonic time to the broker's and `skew` from the broker's to the host's, both to within
    `within`."""

    offset: float
    skew: float
    within: float


class BrokerClock:
    """Ask `start` before anything else, and keep `follow` running."""

    def __init__(self, bus: Bus, host: Host, max_skew_s: float) -> None:
        self._bus, self._host, self._max_skew_s = bus, host, max_skew_s
        self._offset = self._since = self._left = 0.0
        self._told = 0.0
        self.skew = 0.0

    def now(self) -> float:
        at = self._host.monotonic()
        return at + self._offset + self._slewed(at) if self._left else at + self._offset

    async def sleep(self, seconds: float) -> None:
        await self._host.sleep(seconds)

    async def start(self) -> None:
        """Raises WrongClock, and Unavailable when the broker does not say what time it is."""
        best = min([await self._sample() for _ in range(FIRST)], key=lambda sample: sample.within)
        self._offset, self._since, self._left = best.offset, self._host.monotonic(), 0.0
        self.skew = best.skew
        if self._is_off(best):
            raise WrongClock(self._words())

    async def follow(self) -> None:
        """For ever; cancel to stop."""
        while True:
            await self._host.sleep(AGAIN_S)
            try:
                self._correct(await self._sample())
            except NoetlError as error:
                log.debug("clock.alone", error=str(error))

    async def _sample(self) -> Sample:
        began = self._host.monotonic()
        there = await self._bus.time()
        ended, here = self._host.monotonic(), self._host.now()
        within = (ended - began) / 2
        return Sample(there - began - within, here - there - within, within)

    def _slewed(self, at: float) -> float:
        most = SLEW * max(0.0, at - self._since)
        return min(max(self._left, -most), most)

    def _correct(self, sample: Sample) -> None:
        at = self._host.monotonic()
        self._offset, self._since = self._offset + self._slewed(at), at
        off = sample.offset - self._offset
        self._left = max(0.0, off - sample.within) + min(0.0, off + sample.within)
        if self._left > STEP_S:
            log.warning("clock.stepped", by_s=round(self._left, 3))
            self._offset, self._left = self._offset + self._left, 0.0
        elif self._left < -STEP_S:
            log.warning("clock.set_back", by_s=round(self._left, 3), slewed_s=round(-self._left / SLEW))
        self.skew = sample.skew
        self._tell(sample)

    def _is_off(self, sample: Sample) -> bool:
        return abs(sample.skew) - sample.within > self._max_skew_s

    def _tell(self, sample: Sample) -> None:
        """Once for each change."""
        if self._is_off(sample) and abs(sample.skew - self._told) > self._max_skew_s:
            self._told = sample.skew
            log.warning("clock.skewed", ahead_s=round(sample.skew, 1), error=self._words())
        elif self._told and not self._is_off(sample):
            self._told = 0.0
            log.info("clock.right", ahead_s=round(sample.skew, 3))

    def _words(self) -> str:
        where = "ahead of" if self.skew > 0 else "behind"
        return (
            f"this machine's clock says {stamp(self._host.now())} and the broker's {stamp(self.now())}: it is {where} "
            f"the broker's by {abs(self.skew):.1f} s, and {self._max_skew_s:g} s are allowed; set the clock that is "
            "wrong (chrony or systemd-timesyncd keep both right), or allow more: NOETL_MAX_SKEW_S"
        )


@asynccontextmanager
async def followed(
    bus: Bus, max_skew_s: float, stop: asyncio.Event, host: Host | None = None
) -> AsyncIterator[BrokerClock | None]:
    """The clock, kept right while the block runs; waits for a broker that says the time. None when stopped first."""
    clock = BrokerClock(bus, host or SystemClock(), max_skew_s)
    while not stop.is_set():
        try:
            await clock.start()
        except Unavailable as error:
            log.warning("clock.waiting", error=str(error))
            await sleep_or_stop(stop, WAIT_S)
            continue
        following = asyncio.create_task(clock.follow())
        try:
            yield clock
        finally:
            following.cancel()
            await asyncio.wait({following})
        return
    yield None
