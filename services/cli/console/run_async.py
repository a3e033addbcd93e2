"""Runs a command's coroutine; Ctrl-C and SIGTERM cancel it, so that it can tidy up, and it is said at once. Logs are
for stderr, and errors alone unless more is asked for: a command that runs services says otherwise when it does."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

from services.cli.console import exits, interruption


def run(work: Coroutine[Any, Any, int]) -> int:
    configure_logs()
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run(_interruptible(work))
    return uvloop.run(_interruptible(work))


def configure_logs() -> None:
    from shared.runtime.service import logging

    asked = os.environ.get("NOETL_LOG_LEVEL", "")
    logging.configure(asked if asked in logging.LEVELS else "error")


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked = False

    def interrupt() -> None:
        nonlocal asked
        interruption.tell(again=asked)
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
