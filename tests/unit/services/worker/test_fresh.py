"""When a worker believes that nobody else can have had a run."""

from services.worker.hold import Around, Hold
from services.worker.presence import AWAY_S, DOUBT_S, Presence
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.events.command import Command
from tests.support.clock import VirtualClock
from tests.unit.services.worker.test_hand_back import Given

FRESH = Command("x1", "start:1", "start", "digest", "default", 0, fresh=True, at=1.0)


def hold(clock: VirtualClock, presence: Presence) -> Hold:
    """Of a command that the worker took from its socket just now."""
    around = Around(MemoryBus(MemoryBroker(clock)), clock, presence, "default", "w1", 1)
    return Hold(around, FRESH, Given(1), presence.absences(), clock.now())


async def test_a_fresh_command_is_believed() -> None:
    clock = VirtualClock()
    assert hold(clock, Presence(clock.now)).is_fresh()


async def test_a_command_that_lay_in_the_socket_of_a_stopped_worker_is_not() -> None:
    """It was given out while the worker was away, and is read after the absence was noticed."""
    clock = VirtualClock()
    presence = Presence(clock.now)
    clock.freeze(DOUBT_S + 2.0)
    presence.confirm()  # whatever runs first notices the absence
    assert not hold(clock, presence).is_fresh()


async def test_long_after_an_absence_it_is_believed_again() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    clock.freeze(AWAY_S + 1.0)
    for _ in range(int(DOUBT_S) + 1):
        presence.confirm()
        clock.freeze(1.0)
    presence.confirm()
    assert hold(clock, presence).is_fresh()
