"""The demand of a pool: figures of schedulers that live, and what the queue has."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.pool_consumer import Queue
from shared.events import demand, subjects
from shared.runtime.stores.demand import FORGOTTEN_S, LISTEN_S, Demand, Demands
from tests.support.clock import VirtualClock


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.broker = MemoryBroker(self.clock, topology.wanted())
        self.bus = MemoryBus(self.broker, "pools")
        self.demands = Demands(self.bus, self.clock)

    async def says(self, scheduler: str, **pools: int) -> None:
        await self.say(scheduler, demand.encode(scheduler, pools))

    async def say(self, scheduler: str, data: bytes) -> None:
        await MemoryBus(self.broker, scheduler).publish(subjects.demand(scheduler), data)
        await self.clock.settle()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    one = World()
    task = asyncio.create_task(one.demands.listen())
    await one.clock.settle()
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_schedulers_add_up_and_a_new_word_replaces_the_last(world: World) -> None:
    await world.clock.advance(LISTEN_S)
    await world.says("s1", default=100, gpu=3)
    await world.says("s2", default=20)
    assert (world.demands.held("default"), world.demands.held("gpu"), world.demands.held("none")) == (120, 3, 0)
    await world.says("s1", default=50)
    assert (world.demands.held("default"), world.demands.held("gpu")) == (70, 0)
    await world.says("s2")
    assert world.demands.held("default") == 50


async def test_the_figure_of_a_dead_scheduler_goes(world: World) -> None:
    await world.clock.advance(LISTEN_S)
    await world.says("s1", default=100)
    await world.clock.advance(FORGOTTEN_S - 1)
    await world.says("s2", default=20)
    assert world.demands.held("default") == 120
    await world.clock.advance(1)
    assert world.demands.held("default") == 20


async def test_it_is_not_known_before_everyone_had_time_to_say_it_nor_without_a_queue(world: World) -> None:
    await world.says("s1", default=100)
    assert world.demands.held("default") is None
    await world.clock.advance(LISTEN_S)
    assert world.demands.held("default") == 100
    assert world.demands.added("default", None) is None
    assert world.demands.added("default", Queue(7, 4)) == Demand(100, 7, 4)
    assert await world.demands.of("nowhere") is None


async def test_after_the_broker_was_away_it_is_not_known_for_a_moment(world: World) -> None:
    await world.clock.advance(LISTEN_S)
    await world.says("s1", default=100)
    world.broker.restarts += 1
    assert world.demands.held("default") is None
    await world.clock.advance(LISTEN_S)
    assert world.demands.held("default") == 100


async def test_the_queue_is_asked(world: World) -> None:
    await world.clock.advance(LISTEN_S)
    await world.says("s1", default=100)
    for n in range(3):
        await world.bus.append(subjects.command("default", "x", f"r{n}"), b"{}")
    found = await world.demands.of("default")
    assert found == Demand(100, 3, 0)
    assert found.total == 103


@pytest.mark.parametrize("data", [
    b"", b"[]", b'{"instance": "s2"}', b'{"instance": "s1", "pools": {"default": -1}}',
    b'{"instance": "s1", "pools": {"a b": 1}}', b'{"instance": "s1", "pools": {"default": "many"}}',
])
async def test_a_word_that_cannot_be_right_counts_for_nothing(world: World, data: bytes) -> None:
    await world.clock.advance(LISTEN_S)
    await world.says("s1", default=5)
    await world.say("s1", data)
    assert world.demands.held("default") == 5


def test_of_too_many_pools_those_with_the_most_are_said() -> None:
    pools = {f"{'p' * 57}{n}": n for n in range(demand.MAX_NAMED + 100)}
    found = demand.decode("s1", demand.encode("s1", pools)).pools
    assert len(found) == demand.MAX_NAMED
    assert min(found.values()) == 100
