"""Runs a command's coroutine; Ctrl-C and SIGTERM cancel it, so that it can tidy up."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from services.cli import exits


def run(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run(_interruptible(work))
    return uvloop.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if not asked:  # a second signal must not cut the tidying short
            asked = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        if not asked:
            raise
        return exits.INTERRUPTED
