"""What the scheduler hears of the room its pools have."""

import asyncio

import msgspec
import pytest

from services.scheduler.rooms import FIRSTS, UNKNOWN_SLOTS, Rooms
from shared.bus import topology
from shared.bus.memory import MemoryBroker, MemoryBus
from shared.events.beat import Beat
from tests.support.clock import VirtualClock


async def heard(bus: MemoryBus, *beats: Beat) -> None:
    for beat in beats:
        await bus.kv_put(topology.WORKERS, f"{beat.pool}.{beat.worker}", msgspec.json.encode(beat))
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def bus(clock: VirtualClock) -> MemoryBus:
    return MemoryBus(MemoryBroker(clock, topology.wanted()))


async def test_the_rooms_of_a_pools_workers_add_up(bus: MemoryBus, clock: VirtualClock) -> None:
    changes: list[int] = []
    rooms = Rooms(bus, clock, lambda: 1.0, lambda: changes.append(1))
    listening = asyncio.create_task(rooms.run())
    await heard(bus)
    assert rooms.room("default") == UNKNOWN_SLOTS
    await heard(bus, Beat("w1", "default", 64, [], 4), Beat("w2", "default", 64, [], 6), Beat("w3", "gpu", 8, [], 16))
    assert rooms.room("default") == 10
    assert rooms.most("default") == FIRSTS * 128
    assert rooms.room("gpu") == 16
    assert len(changes) == 3
    await heard(bus, Beat("w1", "default", 64, [], 4))
    assert len(changes) == 3
    await bus.kv_delete(topology.WORKERS, "default.w2")
    await heard(bus)
    assert rooms.room("default") == 4
    listening.cancel()


async def test_a_scheduler_uses_its_share_and_at_least_one(bus: MemoryBus, clock: VirtualClock) -> None:
    rooms = Rooms(bus, clock, lambda: 0.25, lambda: None)
    listening = asyncio.create_task(rooms.run())
    await heard(bus)
    await heard(bus, Beat("w1", "default", 64, [], 8))
    assert rooms.room("default") == 2
    await heard(bus, Beat("w1", "default", 1, [], 1))
    assert rooms.room("default") == 1
    listening.cancel()


async def test_a_silent_worker_has_no_room(bus: MemoryBus, clock: VirtualClock) -> None:
    rooms = Rooms(bus, clock, lambda: 1.0, lambda: None)
    listening = asyncio.create_task(rooms.run())
    await heard(bus)
    await heard(bus, Beat("w1", "default", 64, [], 8))
    await bus.kv_put(topology.WORKERS, "default.w2", b"not a beat")
    await clock.advance(topology.WORKER_TTL_S + 1)
    rooms.forget_silent()
    assert rooms.room("default") == UNKNOWN_SLOTS
    listening.cancel()


async def test_a_worker_that_drains_has_no_room(bus: MemoryBus, clock: VirtualClock) -> None:
    rooms = Rooms(bus, clock, lambda: 1.0, lambda: None)
    listening = asyncio.create_task(rooms.run())
    await heard(bus)
    await heard(bus, Beat("w1", "default", 64, [], 4), Beat("w2", "default", 64, [], 6))
    await heard(bus, Beat("w2", "default", 64, [], 6, draining=True))
    assert rooms.room("default") == 4
    listening.cancel()
