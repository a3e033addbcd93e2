"""What runs beside a service: loops that live and die with it, and small work that nobody waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Work that nobody waits for. It is kept until it ends: the event loop alone would let it be collected."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def room(self, most: int) -> None:
        """Returns when fewer than that are under way."""
        while len(self._tasks) >= most:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancels what is under way, and waits until it has ended."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def run_until(stop: asyncio.Event, *loops: Coroutine[Any, Any, None], finish: Coroutine[Any, Any, None]) -> None:
    """Runs the loops until `stop`, then cancels them and waits for `finish`, which ends by itself.
    Whatever fails first is raised."""
    main = asyncio.create_task(finish)
    background = [asyncio.create_task(loop) for loop in loops]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({main, stopping, *background}, return_when=asyncio.FIRST_COMPLETED)
        for task in background:
            if task.done():
                task.result()
    finally:
        stopping.cancel()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if stop.is_set() or main.done():
            await main
        else:
            main.cancel()
            await asyncio.wait({main})
