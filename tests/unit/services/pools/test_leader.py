"""One reconciler acts: another takes over when the first one is silent, or leaves."""

import msgspec

from services.pools.leader import LEASE_S, RENEW_S, Leadership
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.runtime.stores.pools import LEADER, Leader
from tests.support.clock import VirtualClock


class Two:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.bus = MemoryBus(MemoryBroker(self.clock, topology.wanted()), "pools")
        self.first, self.second = (Leadership(self.bus, self.clock, name) for name in ("one", "two"))

    async def look(self) -> tuple[bool, bool]:
        return await self.first.look(), await self.second.look()


async def test_the_first_leads_and_the_second_waits() -> None:
    two = Two()
    for _ in range(10):
        assert await two.look() == (True, False)
        await two.clock.advance(RENEW_S)


async def test_a_silent_leader_is_replaced_and_hears_of_it() -> None:
    two = Two()
    assert await two.look() == (True, False)
    await two.clock.advance(LEASE_S / 2)
    assert not await two.second.look()
    await two.clock.advance(LEASE_S / 2 + 0.1)
    assert await two.second.look()
    assert await two.look() == (False, True)


async def test_one_that_leaves_is_replaced_at_once() -> None:
    two = Two()
    await two.look()
    await two.first.leave()
    assert await two.second.look()
    assert not await two.first.look()


async def test_the_same_instance_started_again_goes_on() -> None:
    two = Two()
    await two.look()
    again = Leadership(two.bus, two.clock, "one")
    assert await again.look()


async def test_a_lease_written_by_another_in_between_is_not_taken() -> None:
    two = Two()
    await two.look()
    await two.clock.advance(RENEW_S + 0.1)
    await two.bus.kv_put(topology.POOLS, LEADER, msgspec.json.encode(Leader("three", 0.0)))
    assert await two.look() == (False, False)
