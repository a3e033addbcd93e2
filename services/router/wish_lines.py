"""Requests about existing executions, beside those for new ones: in order for each execution, a few at a time.

Whoever sends thousands of them, about executions that nobody has, holds up no one who wants to start one. What does not
find a place in line goes back to the queue for a while.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from shared.bus.ports import Delivery
from shared.runtime.service.background import Tasks

MAX_WAITING = 256
AT_ONCE = 32


class Lines:
    """`do` handles one, and raises nothing."""

    def __init__(self, do: Callable[[Delivery], Awaitable[None]]) -> None:
        self._do = do
        self._lines: dict[str, deque[Delivery]] = {}
        self._waiting = 0
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks = Tasks()

    def add(self, execution_id: str, delivery: Delivery) -> bool:
        """False: there is no place."""
        if self._waiting >= MAX_WAITING:
            return False
        self._waiting += 1
        line = self._lines.get(execution_id)
        if line is None:
            self._lines[execution_id] = deque([delivery])
            self._tasks.start(self._serve(execution_id))
        else:
            line.append(delivery)
        return True

    async def _serve(self, execution_id: str) -> None:
        line = self._lines[execution_id]
        try:
            while line:
                async with self._turns:
                    await self._do(line[0])
                line.popleft()
                self._waiting -= 1
        finally:
            self._waiting -= len(line)
            del self._lines[execution_id]

    async def stop(self) -> None:
        """What is left comes again, here or elsewhere."""
        await self._tasks.stop()
