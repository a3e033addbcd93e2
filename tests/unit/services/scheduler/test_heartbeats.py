"""What a scheduler makes of heartbeats: those that cannot be read are told, and nobody can flood the letters."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from services.scheduler.heartbeats import Hearing
from shared.bus import dead_letters, topology
from shared.bus.memory.bus import MemoryBus
from shared.events.beat import PROBE
from shared.runtime.control.letter_quota import MAX_LETTERS
from tests.support.memory_bus import memory_bus
from tests.support.waiting import until

LAST = "noetl_workers/other.w1"


class Deaf:
    """Whoever hears beats that can be read: here there are none."""

    def ended(self, worker: str) -> None:
        raise AssertionError(worker)


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus(topology.PARTITIONS)


@asynccontextmanager
async def hearing(bus: MemoryBus) -> AsyncIterator[None]:
    beats, *others = Hearing(bus, Deaf(), Deaf()).loops()  # type: ignore[arg-type]
    for other in others:
        other.close()
    task = asyncio.create_task(beats)
    try:
        yield
    finally:
        task.cancel()


async def _places(bus: MemoryBus) -> list[str]:
    return [letter.note.place for letter in await dead_letters.latest(bus, 1000) if letter.note is not None]


async def test_who_makes_up_names_leaves_the_letters_of_others_alone(bus: MemoryBus) -> None:
    async with hearing(bus):
        for n in range(MAX_LETTERS + 50):
            await bus.kv_put(topology.WORKERS, f"default.w{n}", b"{}")
        await bus.kv_put(topology.WORKERS, "other.w1", b"{}")
        places = await until(lambda: _places(bus), "the last is a letter", so=lambda found: LAST in found)
    assert len(places) == MAX_LETTERS + 2  # one says that there are more
    assert places[-1] == LAST
    assert places[-2].startswith("workers of default, hour ")


async def test_whether_one_may_write_is_no_heartbeat(bus: MemoryBus) -> None:
    async with hearing(bus):
        for worker in (f"default.{PROBE}", "other.w1"):
            await bus.kv_put(topology.WORKERS, worker, b"{}")
        assert await until(lambda: _places(bus), "a letter") == [LAST]
