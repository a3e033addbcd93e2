"""Background loops that live and die with a service."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
