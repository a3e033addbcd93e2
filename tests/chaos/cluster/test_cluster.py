"""The short form of what three brokers go through, and how its figures are read. The long one:
python -m tests.chaos.cluster"""

import pytest

from tests.chaos.cluster.__main__ import on_three_brokers, options
from tests.chaos.cluster.faults import KILL, KILLED_S, STOP, STOPPED_S, draw
from tests.chaos.cluster.recovery import Cost, Made, Seen, costs, table

STREAMS = [f"S{number}" for number in range(7)]


@pytest.mark.long
async def test_brokers_are_killed_stopped_and_restarted_and_nothing_is_lost() -> None:
    wanted = options(["--kills", "2", "--stops", "1", "--loop", "300", "--rate", "3", "--seed", "2"])
    assert (await on_three_brokers(wanted)).problems == []


def test_the_faults_of_a_seed_are_the_same_every_time_and_every_leader_is_killed() -> None:
    planned = draw(7, 20, 5, STREAMS)
    assert planned == draw(7, 20, 5, STREAMS[::-1])
    kills, stops = ([each for each in planned if each.kind == kind] for kind in (KILL, STOP))
    assert (len(kills), len(stops)) == (20, 5)
    assert {each.stream for each in kills} == set(STREAMS)
    assert all(KILLED_S[0] <= each.lasts <= KILLED_S[1] for each in kills)
    assert all(STOPPED_S[0] <= each.lasts <= STOPPED_S[1] for each in stops)


def test_what_a_fault_costs_is_read_from_the_executions_around_it() -> None:
    """One was under way when the broker was lost, one waited for it, one was asked for when it was back."""
    first = Made(KILL, "0", at=100.0, back=103.0, current=105.0)
    second = Made(STOP, "1", at=120.0, back=130.0, current=130.5)
    seen = [Seen(90.0, 90.1, 90.5), Seen(99.9, 99.95, 106.0), Seen(101.0, 106.5, 107.0), Seen(104.0, 106.2, 106.9),
            Seen(110.0, 110.1, 110.4), Seen(119.0, 119.1, 119.5), Seen(131.0, 131.2, 131.5)]
    found = [Cost(*(round(each, 1) for each in one)) for one in costs([first, second], 140.0, seen)]
    assert found == [
        Cost(away=3.0, silence=9.1, longest=6.0, recovered=7.0, next=3.2, current=2.0),
        Cost(away=10.0, silence=11.5, longest=0.5, recovered=0.0, next=1.2, current=0.5),
    ]
    lines = table([first, second], found)
    assert [line.split("  ")[0] for line in lines] == [
        "fault", "leader killed 0", "leader stopped 1", "median of 1: leader killed", "highest of 1: leader killed",
        "median of 1: leader stopped", "highest of 1: leader stopped"]
