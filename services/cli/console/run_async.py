"""Runs a command's coroutine; Ctrl-C and SIGTERM cancel it, so that it can tidy up, and it is said at once. Logs are
for stderr, and errors alone unless more is asked for: a command that runs services says otherwise when it does."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

from services.cli.console import exits, interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(work: Coroutine[Any, Any, int]) -> int:
    configure_logs()
    interrupted = asyncio.Event()
    try:
        return _looped(_interruptible(work, interrupted))
    finally:
        if interrupted.is_set():
            _ignore_signals()  # the loop has put back what it had found


def _looped(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run(work)
    return uvloop.run(work)


def configure_logs() -> None:
    from shared.runtime.service import logging

    asked = os.environ.get("NOETL_LOG_LEVEL", "")
    logging.configure(asked if asked in logging.LEVELS else "error")


async def _interruptible(work: Coroutine[Any, Any, int], interrupted: asyncio.Event) -> int:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        interruption.tell(again=interrupted.is_set())
        if not interrupted.is_set():  # a second signal must not cut the tidying short
            interrupted.set()
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        return exits.INTERRUPTED
    finally:
        if interrupted.is_set():
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            _ignore_signals()


def _ignore_signals() -> None:
    """What was interrupted is tidied up and only has to end: another signal must not end it in another way. A function
    of ours, not SIG_IGN: that would be inherited by processes we start."""
    for number in SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
