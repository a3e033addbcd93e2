"""Dead letters of records: each is told, and nobody who makes them up can push out those of others."""


import pytest

from shared.bus import dead_letters, topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Message
from shared.events import subjects
from shared.runtime.control.burials import ORIGIN, Burials
from shared.runtime.control.letter_quota import HOUR_S, MAX_LETTERS, Quota
from shared.runtime.service.clock import SystemClock
from tests.support.waiting import until


class Stage:
    """Burials of two partitions of a service, with a quota in common."""

    def __init__(self) -> None:
        broker = MemoryBroker(SystemClock())
        broker.ensure(topology.wanted())
        self.bus, self.now, self.handled = MemoryBus(broker), 0.0, 0
        quota = Quota(lambda: self.now, ORIGIN)
        self.burials = [Burials(self.bus, SystemClock(), topology.events_stream(p), quota) for p in range(2)]

    def _count(self) -> None:
        self.handled += 1

    async def bury(self, writer: str, pool: str, first: int, count: int, partition: int = 0) -> None:
        burials, handled = self.burials[partition], self.handled + count
        for seq in range(first, first + count):
            await burials.room()
            burials.add(Message(subjects.event(partition, "x", writer, pool), b"{}", seq), "forged", self._count)
        await until(lambda: self.handled, f"{handled} are handled", so=lambda found: found == handled)

    async def letters(self, origin: str = ORIGIN) -> int:
        return len(await dead_letters.latest(self.bus, 10 * MAX_LETTERS, origin))


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("writer", sorted(subjects.LEASED))
async def test_of_one_pool_there_are_so_many_letters_in_an_hour(stage: Stage, writer: str) -> None:
    await stage.bury(writer, "evil", 1, MAX_LETTERS + 50)
    assert await stage.letters() == MAX_LETTERS
    assert stage.handled == MAX_LETTERS + 50  # the cursor waits for none of them
    await until(lambda: stage.letters(dead_letters.LEFT_OUT), "that there are more is told once", so=lambda n: n == 1)
    stage.now += HOUR_S
    await stage.bury(writer, "evil", 1000, 1)
    assert await stage.letters() == MAX_LETTERS + 1
    assert await stage.letters(dead_letters.LEFT_OUT) == 1


async def test_the_partitions_of_a_service_share_the_quota(stage: Stage) -> None:
    await stage.bury("worker", "evil", 1, MAX_LETTERS - 1)
    await stage.bury("worker", "evil", 1, 10, partition=1)
    assert await stage.letters() == MAX_LETTERS


async def test_what_other_pools_and_services_write_is_told_all_the_same(stage: Stage) -> None:
    await stage.bury("worker", "evil", 1, MAX_LETTERS + 50)
    await stage.bury("iteration", "good", 1000, 3)
    await stage.bury("router", "", 2000, MAX_LETTERS + 5)
    assert await stage.letters() == MAX_LETTERS + 3 + MAX_LETTERS + 5
