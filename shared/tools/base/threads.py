"""Blocking work on a thread, stopped when the call is."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

STOP_EVERY_S = 0.05

T = TypeVar("T")


async def on_thread(threads: Executor, work: Callable[[], T], stop: Callable[[], None]) -> T:
    """The work's answer. Cancelled, it calls `stop` again and again until the work is over, because a stop
    between two statements may be lost; on a thread of its own, because it may have to ask a server."""
    job = threads.submit(work)
    try:
        return await asyncio.wrap_future(job)
    finally:
        while not job.done() and not job.cancel():
            await asyncio.to_thread(stop)
            await asyncio.sleep(STOP_EVERY_S)
