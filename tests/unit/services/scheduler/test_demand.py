"""What a scheduler says it holds back: when it changes, again while it stands, and nothing at rest."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.scheduler.demand import EVERY_S, REPEAT_S, SOON_S, Demand
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.events import demand, subjects
from shared.runtime.service.listener import listen
from tests.support.clock import VirtualClock


class Told:
    def __init__(self) -> None:
        self.clock, self.held, self.words = VirtualClock(), dict[str, int](), list[dict[str, int]]()
        self.broker = MemoryBroker(self.clock, topology.wanted())
        self.demand = Demand(MemoryBus(self.broker, "s1"), self.clock, "s1", lambda: dict(self.held))

    def hears(self, data: bytes) -> None:
        self.words.append(demand.decode("s1", data).pools)

    async def passes(self, seconds: float) -> list[dict[str, int]]:
        """What is said in that time."""
        self.words.clear()
        await self.clock.advance(seconds)
        return list(self.words)


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    one = Told()
    bus = MemoryBus(one.broker, "listener")
    tasks = [asyncio.create_task(listen(bus, subjects.demand("*"), one.hears)), asyncio.create_task(one.demand.run())]
    await one.clock.settle()
    yield one
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_it_is_said_when_it_changes_and_again_every_few_seconds_while_it_stands(told: Told) -> None:
    assert await told.passes(10) == []
    told.held = {"default": 5}
    assert await told.passes(EVERY_S) == [{"default": 5}]
    assert await told.passes(REPEAT_S + SOON_S) == [{"default": 5}]
    told.held = {"default": 7, "gpu": 1}
    assert await told.passes(EVERY_S) == [{"default": 7, "gpu": 1}]
    told.held = {}
    assert await told.passes(10) == [{}]


async def test_it_is_said_once_a_second_however_often_it_changes_a_little(told: Told) -> None:
    told.held = {"default": 1000}
    await told.passes(EVERY_S)
    told.words.clear()
    for count in range(1000, 1030):
        told.held = {"default": count}
        await told.clock.advance(0.1)
    assert len(told.words) in (2, 3)


async def test_a_change_that_counts_is_said_at_once(told: Told) -> None:
    told.held = {"default": 1000, "gpu": 20}
    await told.passes(EVERY_S)
    for held in ({"default": 900, "gpu": 20}, {"default": 900, "gpu": 40}, {"default": 900}):
        told.held = dict(held)
        assert await told.passes(SOON_S) == [held]
    told.held = {"default": 870}  # less than a twentieth
    assert await told.passes(SOON_S) == []
    assert await told.passes(EVERY_S) == [{"default": 870}]


async def test_one_that_leaves_says_that_it_holds_nothing(told: Told) -> None:
    await told.demand.close()
    await told.clock.settle()
    assert told.words == []
    told.held = {"default": 5}
    await told.passes(EVERY_S)
    await told.demand.close()
    await told.clock.settle()
    assert told.words == [{"default": 5}, {}]


async def test_what_nobody_could_hear_is_said_later(told: Told) -> None:
    told.held = {"default": 5}
    told.broker.set_down(True)
    assert await told.passes(EVERY_S) == []
    told.broker.set_down(False)
    assert await told.passes(REPEAT_S + SOON_S) == [{"default": 5}]
