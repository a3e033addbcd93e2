"""What the scheduler hears of the room its pools have."""


from services.scheduler.pool_capacity import FIRSTS, UNKNOWN_SLOTS, Rooms
from shared.bus import topology
from shared.events.beat import Beat
from tests.support.clock import VirtualClock, clock

__all__ = ["clock"]


def heard(rooms: Rooms, *beats: Beat) -> None:
    for beat in beats:
        rooms.heard(f"{beat.pool}.{beat.worker}", beat)


def test_the_rooms_of_a_pools_workers_add_up(clock: VirtualClock) -> None:
    changes: list[int] = []
    rooms = Rooms(clock, lambda: 1.0, lambda: changes.append(1))
    assert rooms.bounds("default")[1] == UNKNOWN_SLOTS
    heard(rooms, Beat("w1", "default", 64, [], 4), Beat("w2", "default", 64, [], 6), Beat("w3", "gpu", 8, [], 16))
    assert rooms.bounds("default")[1] == 10
    assert rooms.bounds("default")[0] == FIRSTS * 128
    assert rooms.bounds("gpu")[1] == 16
    assert len(changes) == 3
    heard(rooms, Beat("w1", "default", 64, [], 4))
    assert len(changes) == 3
    rooms.ended("default.w2")
    assert rooms.bounds("default")[1] == 4


def test_a_scheduler_uses_its_share_and_at_least_one(clock: VirtualClock) -> None:
    rooms = Rooms(clock, lambda: 0.25, lambda: None)
    heard(rooms, Beat("w1", "default", 64, [], 8))
    assert rooms.bounds("default")[1] == 2
    heard(rooms, Beat("w1", "default", 1, [], 1))
    assert rooms.bounds("default")[1] == 1


async def test_a_silent_worker_has_no_room(clock: VirtualClock) -> None:
    rooms = Rooms(clock, lambda: 1.0, lambda: None)
    heard(rooms, Beat("w1", "default", 64, [], 8))
    await clock.advance(topology.WORKER_TTL_S + 1)
    rooms.forget_silent()
    assert rooms.bounds("default")[1] == UNKNOWN_SLOTS


def test_a_worker_that_drains_has_no_room(clock: VirtualClock) -> None:
    rooms = Rooms(clock, lambda: 1.0, lambda: None)
    heard(rooms, Beat("w1", "default", 64, [], 4), Beat("w2", "default", 64, [], 6))
    heard(rooms, Beat("w2", "default", 64, [], 6, draining=True))
    assert rooms.bounds("default")[1] == 4
