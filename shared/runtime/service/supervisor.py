"""Keeps something running: starts it again, with growing pauses, until it is told to stop.

`run` is one life: it returns or raises when that life is over. Used for child processes, for
services that are tasks of this process, and for the embedded servers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from shared.errors import NoetlError

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
HEALTHY_AFTER_S = 10.0  # a life this long forgives the failures before it

log = structlog.get_logger()


class GaveUp(NoetlError):
    """It died too often in a row."""


def pause_before(failures: int) -> float:
    """Seconds before the next start, after this many short lives in a row."""
    return float(min(FIRST_PAUSE_S * 2 ** (failures - 1), LONGEST_PAUSE_S))


async def supervise(
    name: str, run: Callable[[], Awaitable[object]], stop: asyncio.Event, *, give_up_after: int | None = None
) -> None:
    """Returns once `stop` is set and the current life is over; raises GaveUp after too many short lives."""
    failures = 0
    while not stop.is_set():
        began = time.monotonic()
        why = await _one_life(run)
        if stop.is_set():
            return
        failures = 1 if time.monotonic() - began > HEALTHY_AFTER_S else failures + 1
        if give_up_after is not None and failures >= give_up_after:
            raise GaveUp(f"{name} failed {failures} times in a row: {why}")
        log.warning("supervisor.restart", child=name, why=why, failures=failures)
        await sleep_or_stop(stop, pause_before(failures))


async def _one_life(run: Callable[[], Awaitable[object]]) -> str:
    try:
        return f"it ended with {await run()!r}"
    except (NoetlError, OSError) as error:
        return str(error)
    except Exception as error:
        log.exception("supervisor.crash")
        return repr(error)


async def sleep_or_stop(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
