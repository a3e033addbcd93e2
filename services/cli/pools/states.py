"""The state of pools, for commands. A server that reloads its configuration, because a pool came or went, may drop a
question: it is asked again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus.ports import Bus
from shared.errors import Unavailable
from shared.runtime.stores import pool_state
from shared.runtime.stores.documents import NotThere
from shared.runtime.stores.pool_state import PoolState

TRIES = 3
PAUSE_S = 0.3
T = TypeVar("T")


async def one(bus: Bus, name: str) -> PoolState:
    """Exit code 7 when there is no such pool."""

    async def look() -> PoolState:
        return await pool_state.read(bus, name, await bus.time())

    try:
        return await _steady(look)
    except NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


async def everyone(bus: Bus) -> list[PoolState]:
    async def look() -> list[PoolState]:
        return await pool_state.read_all(bus, await bus.time())

    return await _steady(look)


async def _steady(read: Callable[[], Awaitable[T]]) -> T:
    for _ in range(TRIES - 1):
        try:
            return await read()
        except Unavailable:
            await asyncio.sleep(PAUSE_S)
    return await read()
