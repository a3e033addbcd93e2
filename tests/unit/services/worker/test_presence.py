"""When a worker must doubt its leases."""

from services.worker.lease_keeper import EXTEND_S, TICK_S
from services.worker.presence import AWAY_S, BEAT_S, DOUBT_S, Presence
from shared.bus import topology
from tests.support.clock import VirtualClock


async def test_a_worker_whose_beats_are_confirmed_was_never_away() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    for _ in range(20):
        await clock.advance(AWAY_S)
        presence.confirm()
    assert presence.absences() == 0


async def test_an_absence_counts_once_whoever_notices_it_first() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    await clock.advance(AWAY_S + 0.1)
    assert presence.absences() == 1
    presence.confirm()
    assert presence.absences() == 1


async def test_the_end_of_an_absence_is_the_answer_of_the_broker() -> None:
    """What was sent while it lasted may be lost: leases are extended again then."""
    clock = VirtualClock()
    presence = Presence(clock.now)
    for _ in range(3):
        await clock.advance(AWAY_S + 0.1)
        presence.absences()
    assert presence.returns == 0
    await clock.advance(BEAT_S)
    presence.confirm()
    presence.confirm()
    assert presence.returns == 1


async def test_an_absence_noticed_by_the_beat_is_not_forgotten() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    await clock.advance(AWAY_S + 0.1)
    presence.confirm()
    assert presence.absences() == 1


async def test_what_was_held_during_an_absence_is_in_doubt_for_the_time_of_a_lease() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    before = presence.absences()
    assert not presence.doubts(before)
    await clock.advance(AWAY_S + 0.1)
    assert presence.doubts(before)
    for _ in range(int(DOUBT_S / BEAT_S)):
        presence.confirm()
        assert presence.doubts(before)
        await clock.advance(BEAT_S)
    presence.confirm()
    assert not presence.doubts(before)


async def test_what_was_taken_after_an_absence_is_not_in_doubt() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    await clock.advance(AWAY_S + 0.1)
    assert not presence.doubts(presence.absences())


def test_a_lease_outlives_the_longest_absence_that_goes_unnoticed() -> None:
    assert BEAT_S < AWAY_S
    assert EXTEND_S + TICK_S + AWAY_S < topology.COMMAND_LEASE_S


async def test_who_was_away_knows_it_for_the_time_of_a_lease() -> None:
    clock = VirtualClock()
    presence = Presence(clock.now)
    assert not presence.was_away()
    await clock.advance(AWAY_S + 0.1)
    for _ in range(int(DOUBT_S / BEAT_S)):
        assert presence.was_away()
        presence.confirm()
        await clock.advance(BEAT_S)
    presence.confirm()
    assert not presence.was_away()
