"""A drain waits for what is held, not longer than its time, and says once what became of it."""


from services.pools.draining import IDLE_S, Drains
from shared.bus.pool_consumer import Queue
from shared.engine.pools.reconcile import Drained
from shared.events.beat import Beat
from shared.runtime.stores.pools import Drain, DrainStatus, Entry, Status
from tests.support.clock import START, VirtualClock, clock

__all__ = ["clock"]

ENTRY = Entry("", 2, "ada", START, drain=Drain("ada", START, 60.0))
BUSY, IDLE = Beat("w", "etl", 4, [("x", "r", -1)]), Beat("w", "etl", 4)


async def test_it_is_over_when_nothing_is_in_flight(clock: VirtualClock) -> None:
    drains = Drains(clock)
    first = drains.advance("etl", ENTRY, Status(), Queue(9, 2), [BUSY])
    assert first == DrainStatus(START, 2)
    second = drains.advance("etl", ENTRY, Status(drain=first), Queue(9, 0), [BUSY])
    assert second == DrainStatus(START, 2, True)


async def test_it_is_over_when_its_time_is(clock: VirtualClock) -> None:
    drains = Drains(clock)
    first = drains.advance("etl", ENTRY, Status(), Queue(0, 2), [BUSY])
    await clock.advance(60.0)
    late = drains.advance("etl", ENTRY, Status(drain=first), Queue(0, 2), [BUSY])
    assert late is not None
    assert late.over


async def test_what_was_handed_back_already_is_not_waited_for(clock: VirtualClock) -> None:
    drains = Drains(clock)
    status = Status(drain=drains.advance("etl", ENTRY, Status(), Queue(0, 1), [IDLE]))
    for seconds, over in ((IDLE_S - 0.1, False), (0.2, True)):
        await clock.advance(seconds)
        found = drains.advance("etl", ENTRY, status, Queue(0, 1), [IDLE])
        assert found is not None
        assert found.over is over


async def test_a_new_drain_begins_anew(clock: VirtualClock) -> None:
    old = DrainStatus(START - 100, 7, True, Drained(7))
    assert Drains(clock).advance("etl", ENTRY, Status(drain=old), Queue(0, 3), [BUSY]) == DrainStatus(START, 3)


async def test_the_report_is_said_once(clock: VirtualClock) -> None:
    drains = Drains(clock)
    first = drains.reported(DrainStatus(START, 5, True), Queue(3, 2), [BUSY])
    assert first.report == Drained(3, 1, 1)
    assert drains.reported(first, Queue(0, 0), []) == first
