"""What the leading pools service tells of pools."""

from services.pools.figures import OLD_S, Figures
from shared.bus.pool_consumer import Queue
from shared.events.beat import Beat
from tests.support.clock import VirtualClock

BUSY = Beat("w1", "etl", 8, [("e1", "r1", -1), ("e2", "r1", -1)])


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.figures = Figures(self.clock)

    def saw(self, queue: Queue | None, after_s: float = 0.0) -> dict[str, float]:
        self.clock.freeze(after_s)
        self.figures.saw("etl", queue, 7, [BUSY], wanted=2, state="ready", crashes=1)
        return self.told()

    def told(self, *, leads: bool = True) -> dict[str, float]:
        found = {}
        for sample in self.figures.samples(leads=leads):
            assert isinstance(sample.value, int | float)
            found[sample.metric.name] = float(sample.value)
        return found


def test_a_pool_is_told_as_it_was_seen() -> None:
    found = World().saw(Queue(5, 2, last=10))
    assert found == {
        "noetl_pools_leader": 1, "noetl_pool_pending": 5, "noetl_pool_in_flight": 2, "noetl_pool_demand": 7,
        "noetl_pool_oldest_pending_seconds": 0, "noetl_pool_workers": 1, "noetl_pool_workers_wanted": 2,
        "noetl_pool_slots": 8, "noetl_pool_slots_taken": 2, "noetl_pool_crashes": 1, "noetl_pool_state": 1,
    }


def test_the_first_command_has_waited_since_the_queue_moved() -> None:
    world, oldest = World(), "noetl_pool_oldest_pending_seconds"
    world.saw(Queue(5, 2, last=10))
    assert world.saw(Queue(6, 2, last=10), after_s=3.0)[oldest] == 3.0
    assert world.saw(Queue(6, 2, last=10), after_s=3.0)[oldest] == 6.0
    assert world.saw(Queue(5, 3, last=11), after_s=3.0)[oldest] == 0.0  # one was delivered
    assert world.saw(Queue(0, 3, last=11), after_s=3.0)[oldest] == 0.0
    assert world.saw(Queue(1, 3, last=11), after_s=3.0)[oldest] == 3.0  # not before it could have come
    assert oldest not in world.saw(None, after_s=3.0)


def test_what_is_old_or_another_leads_is_not_told() -> None:
    world = World()
    world.saw(Queue(5, 2))
    assert world.told(leads=False) == {"noetl_pools_leader": 0}
    world.clock.freeze(OLD_S + 1)
    assert world.told() == {"noetl_pools_leader": 1}
    world.saw(Queue(5, 2))
    world.figures.keep({"other"})
    assert world.told() == {"noetl_pools_leader": 1}
