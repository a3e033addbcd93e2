"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from datetime import datetime
from itertools import count

import pytest

from shared.runtime.service.clock import SystemClock

START = 1_700_000_000.0
_SETTLE = 20  # turns of the event loop in which woken tasks come to rest


class VirtualClock:
    skew = 0.0

    def __init__(self) -> None:
        self._now = START
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Wakes the sleepers in the order of their times."""
        end = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, future = heapq.heappop(self._sleepers)
            self._now = max(self._now, at)
            if not future.done():
                future.set_result(None)
            await self.settle()
        self._now = end
        await self.settle()

    def freeze(self, seconds: float) -> None:
        """Time passes and wakes nobody, as for a process that is stopped."""
        self._now += seconds

    async def settle(self) -> None:
        for _ in range(_SETTLE):
            await asyncio.sleep(0)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def at(text: str) -> int:
    """The seconds of Unix at that time."""
    return int(datetime.fromisoformat(text).timestamp())


class MovedClock(SystemClock):
    """Time passes as it does, and when a test says so."""

    passed = 0.0

    def now(self) -> float:
        return super().now() + self.passed
