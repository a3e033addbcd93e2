"""The machines of the simulated services: each has a wall clock, which may be wrong and may jump. The services
go by the broker's clock over it, as real ones do."""

import asyncio
from typing import Protocol

from tests.sim.loop import now

ANY_S = 1e9  # services are started whatever their machine's clock says


class Sleeper(Protocol):
    async def sleep(self, seconds: float) -> None: ...


class Machine:
    """Outlives the services that are started on it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0


class Host:
    """A machine as one service sees it. `sleeper` is its client, whose sleep lasts while it is frozen and never ends
    once it is dead."""

    def __init__(self, machine: Machine, sleeper: Sleeper) -> None:
        self._machine, self._sleeper = machine, sleeper

    def now(self) -> float:
        return now() + self._machine.ahead_s

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await self._sleeper.sleep(seconds)
