"""Places with a rate, given out by a scheduler whose broker is slow."""

import asyncio

import pytest

from services.scheduler.limits import Limits
from shared.bus import kv, topology
from shared.bus.memory.bus import Faults
from shared.engine.scheduling.limits import Want
from shared.events import subjects
from shared.events.model import Limited
from shared.events.record import readable
from shared.events.stamp import seconds
from shared.runtime.service.clock import SystemClock
from tests.support.memory_bus import memory_bus
from tests.support.waiting import until

PERIOD_S = 0.3
SLOW_S = 0.25
RATE = 2
WANTS = 6


class SlowAtFirst(Faults):
    """The first records of grants are long under way."""

    def __init__(self, count: int) -> None:
        self._left = count

    async def before(self, operation: str, client: str, subject: str) -> None:
        if subject.startswith("noetl.events.") and self._left:
            self._left -= 1
            await asyncio.sleep(SLOW_S)


async def grants(slow: int) -> list[float]:
    """When each place was given, as the log says."""
    bus = memory_bus(faults=SlowAtFirst(slow))
    limits = Limits(bus, SystemClock(), "me", 1, lambda _: True, lambda: ("me",), lambda _execution, _at: True)

    async def times() -> list[float]:
        found = await bus.read(topology.events_stream(0), (subjects.event(0, "e", subjects.CONTROL),))
        return [seconds(record.ts) for _, record in readable(found, 1)]

    for number in range(WANTS):
        limits.take(Want("e", Limited("k", 0, RATE, PERIOD_S), "s:1", number))
    running = asyncio.create_task(limits.run())
    try:
        return await until(times, "every place is given", so=lambda found: len(found) == WANTS)
    finally:
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("slow", [0, 1, 3])
async def test_a_rate_counts_from_the_records_that_give_places(slow: int) -> None:
    times = await grants(slow)
    assert all(later - earlier >= PERIOD_S - 0.001 for earlier, later in zip(times, times[RATE:], strict=False)), times


async def test_schedulers_that_do_not_see_each_other_do_not_write_against_each_other() -> None:
    """Both look after the same execution, for as long as they disagree about who is alive."""
    bus, granted = memory_bus(), Want("held", Limited("k", 1), "s:1", granted=True)
    tasks: list[asyncio.Task[None]] = []
    for name in ("one", "two"):
        limits = Limits(bus, SystemClock(), name, 1, lambda _: True, lambda: (), lambda _execution, _at: True)
        limits.take(granted)
        limits.take(Want("waits", Limited("k", 1), "s:1"))
        tasks += asyncio.create_task(limits.run()), asyncio.create_task(limits.hear())
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    written = (await bus.state(kv.stream_of(topology.LIMITS))).last
    assert 2 <= written <= 4
