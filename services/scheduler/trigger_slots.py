"""How many executions of a trigger run at the same time. Who has a place is kept in KV by
compare-and-set; a place is free again when the log says that its execution is over."""

import asyncio
from typing import Literal

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.dsl.documents.triggers import Trigger
from shared.errors import Conflict
from shared.runtime.stores import schedules as store_schedules
from shared.runtime.stores.execution_status import standing, standings
from shared.runtime.stores.schedules import Holders

CORE_KEPT_S = 600.0  # a core message may be lost after it got its place and before its request is out
FULL_S = 0.9  # found full, it is not looked at again for this long, however many wait
TRIES = 10


class Places:
    def __init__(self, bus: Bus, clock: Clock, trigger: Trigger, partitions: int) -> None:
        self._bus, self._clock, self._trigger, self._partitions = bus, clock, trigger, partitions
        self._kept_s = topology.REQUESTS_KEPT_S if trigger.stream else CORE_KEPT_S
        self._one_at_a_time = asyncio.Lock()
        self._full_until = 0.0

    async def take(self, execution_id: str) -> Literal["taken", "full", "known"]:
        """`known`: there is such an execution already, with this place or without one."""
        if not self._trigger.max_running:
            return "taken"
        if await standing(self._bus, execution_id, self._partitions) != "unknown":
            return "known"
        async with self._one_at_a_time:
            for _ in range(TRIES):
                try:
                    return "taken" if await self._take(execution_id) else "full"
                except Conflict:
                    continue
        raise Conflict(f"the places of trigger {self._trigger.name} are fought over")

    async def _take(self, execution_id: str) -> bool:
        name = self._trigger.name
        holders, revision = await store_schedules.read_state(self._bus, "Trigger", name, Holders)
        running = holders.running
        if execution_id in running:
            return True
        if len(running) >= self._trigger.max_running:
            if self._clock.now() < self._full_until:
                return False
            running = await self._still(running)
        if len(running) >= self._trigger.max_running:
            self._full_until = self._clock.now() + FULL_S
            return False
        running = {**running, execution_id: self._clock.now()}
        await store_schedules.write_state(self._bus, "Trigger", name, Holders(running), revision)
        return True

    async def _still(self, running: dict[str, float]) -> dict[str, float]:
        found = await standings(self._bus, running, self._partitions)
        oldest = self._clock.now() - self._kept_s
        return {
            each: since for each, since in running.items()
            if found[each] == "running" or (found[each] == "unknown" and since > oldest)
        }
