"""The broker in memory with the streams of the product."""

import asyncio

import pytest

from shared.bus import topology
from shared.bus.memory.bus import Faults, MemoryBroker, MemoryBus
from shared.runtime.service.clock import SystemClock
from tests.support.clock import VirtualClock


def memory_bus(partitions: int = 1, faults: Faults | None = None) -> MemoryBus:
    return MemoryBus(MemoryBroker(SystemClock(), topology.wanted(partitions=partitions), faults))


class InTurns(Faults):
    """Clients get their turn at every operation."""

    async def before(self, operation: str, client: str, subject: str) -> None:
        await asyncio.sleep(0)


@pytest.fixture(name="bus")
def bus_in_turns() -> MemoryBus:
    return MemoryBus(MemoryBroker(VirtualClock(), topology.wanted(), InTurns()), "admin")
