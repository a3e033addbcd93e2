"""When a worker must doubt its leases."""

from services.worker.presence import AWAY_S, Presence
from services.worker.service import BEAT_S, EXTEND_S
from shared.bus import topology
from tests.support.clock import VirtualClock


async def test_a_worker_whose_beats_are_confirmed_was_never_away() -> None:
    clock = VirtualClock()
    presence = Presence(clock)
    for _ in range(20):
        await clock.advance(AWAY_S)
        presence.confirm()
    assert presence.absences() == 0


async def test_an_absence_counts_once_whoever_notices_it_first() -> None:
    clock = VirtualClock()
    presence = Presence(clock)
    await clock.advance(AWAY_S + 0.1)
    assert presence.absences() == 1
    presence.confirm()
    assert presence.absences() == 1


async def test_an_absence_noticed_by_the_beat_is_not_forgotten() -> None:
    clock = VirtualClock()
    presence = Presence(clock)
    await clock.advance(AWAY_S + 0.1)
    presence.confirm()
    assert presence.absences() == 1


def test_a_lease_outlives_the_longest_absence_that_goes_unnoticed() -> None:
    assert BEAT_S < AWAY_S
    assert EXTEND_S + AWAY_S < topology.COMMAND_LEASE_S
