"""Wakes executions whose next decision follows from time alone. What is due is derived from their states, so
nothing here has to survive: whoever loads a state sets its alarm again."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable

from shared.bus.ports import Clock

EARLY_S = 0.001  # sleeping may end a little before its time
MAX_SLEEP_S = 30.0  # the clock may be set forward meanwhile, or be slewed


class Alarms:
    def __init__(self, clock: Clock, ring: Callable[[str], Awaitable[None]]) -> None:
        self._clock, self._ring = clock, ring
        self._heap: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()

    def set(self, when: float, name: str) -> None:
        heapq.heappush(self._heap, (when, name))
        if self._heap[0] == (when, name):
            self._sooner.set()

    async def run(self) -> None:
        """Rings for ever; cancel to stop."""
        while True:
            self._sooner.clear()
            now = self._clock.now()
            while self._heap and self._heap[0][0] <= now:
                await self._ring(heapq.heappop(self._heap)[1])
            await self._sleep(self._heap[0][0] - self._clock.now() if self._heap else MAX_SLEEP_S)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(max(seconds, 0.0) + EARLY_S, MAX_SLEEP_S)):
                await self._sooner.wait()
        except TimeoutError:
            return
