"""How pools stand, for commands. A server that reads its configuration anew, because a pool came or went, may drop a
question: it is asked again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.cli import exits
from services.cli.exits import CliError
from shared.bus.ports import Bus
from shared.errors import Unavailable
from shared.runtime import pool_state
from shared.runtime.pool_state import PoolState
from shared.runtime.pools import NotThere

TRIES = 3
PAUSE_S = 0.3
T = TypeVar("T")


async def one(bus: Bus, name: str) -> PoolState:
    """Exit code 7 when there is no such pool."""
    try:
        return await _steady(lambda: pool_state.read(bus, name, time.time()))
    except NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


async def everyone(bus: Bus) -> list[PoolState]:
    return await _steady(lambda: pool_state.read_all(bus, time.time()))


async def _steady(read: Callable[[], Awaitable[T]]) -> T:
    for _ in range(TRIES - 1):
        try:
            return await read()
        except Unavailable:
            await asyncio.sleep(PAUSE_S)
    return await read()
