"""Celery: hands the first messages in and waits for results, which Redis publishes."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery_work import made
from harness import drive

WITHIN_S = 170
thread = ThreadPoolExecutor(1)  # its client of results is for one thread: all are handed in, then each is waited for


def _get(result: Any, shape: str) -> Any:
    found = result.get(timeout=WITHIN_S, interval=0.002)
    return sum(found) if shape == "loop" else found


async def execute(_: str, shape: str, argument: Any) -> Any:
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(thread, lambda: made(shape, argument).apply_async())
    return await loop.run_in_executor(thread, _get, result, shape)


asyncio.run(drive(execute))
