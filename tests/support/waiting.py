"""Waiting for what another task, process or server brings about. Every wait is bounded, and one that is not met says
what was wanted and what was there instead."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
Errors = tuple[type[Exception], ...]

WITHIN_S = 40.0  # by far longer than anything takes that a test waits for, also on a busy machine


async def until(
    look: Callable[[], Awaitable[T] | T], what: str, within_s: float = WITHIN_S, *, so: Callable[[T], object] = bool,
    despite: Errors = (), instead: Callable[[], object] | None = None, every_s: float = 0.02,
) -> T:
    """What `look` finds, as soon as it is `so`. An error that is one of `despite` means: not yet. Where what was found
    says little, `instead` tells more."""
    found: object = "nothing yet"
    try:
        async with asyncio.timeout(within_s) as bound:  # by the loop's time, which in the simulator is virtual
            while True:
                try:
                    seen = look()
                    value: T = await seen if inspect.isawaitable(seen) else seen
                    if so(value):
                        return value
                    found = value
                except despite as error:
                    found = error
                await asyncio.sleep(every_s)
    except TimeoutError:
        if not bound.expired():
            raise
        raise _unmet(what, within_s, found, instead) from None


def wait_until(
    look: Callable[[], T], what: str, within_s: float = WITHIN_S, *, so: Callable[[T], object] = bool,
    despite: Errors = (), instead: Callable[[], object] | None = None, every_s: float = 0.1,
) -> T:
    """The same for tests without an event loop: the thread waits."""
    found: object = "nothing yet"
    deadline = time.monotonic() + within_s
    while True:
        try:
            value = look()
            if so(value):
                return value
            found = value
        except despite as error:
            found = error
        if time.monotonic() >= deadline:
            raise _unmet(what, within_s, found, instead)
        time.sleep(every_s)


def _unmet(what: str, within_s: float, found: object, instead: Callable[[], object] | None) -> AssertionError:
    there = repr(found) if instead is None else instead()
    return AssertionError(f"not within {within_s:g} s: {what}; there was {there}")
