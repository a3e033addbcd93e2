"""The short form of the storm, and what it counts as explained. The long one: python -m tests.chaos.storm"""

import pytest

from tests.chaos.storm.__main__ import options, storm
from tests.chaos.storm.checks import explained, repeated, went_on
from tests.chaos.storm.faults import BROKER, Fault, Planned, draw
from tests.chaos.storm.ledger import Called

VICTIMS = ("router-g", "scheduler-g", "worker-g", "worker-h")


async def test_a_short_storm_leaves_nothing_behind() -> None:
    assert await storm(options(["--minutes", "0.7", "--faults", "10", "--seed", "1", "--rate", "2"])) == []


def test_the_faults_of_a_seed_are_the_same_every_time_and_all_kinds_come() -> None:
    planned = draw(7, 1200.0, 300, VICTIMS)
    assert planned == draw(7, 1200.0, 300, VICTIMS)
    assert {each.kind for each in planned} == {"kill", "stop", "reset", "silent", "clock", "broker", "freeze"}
    assert [each.at for each in planned] == sorted(each.at for each in planned)
    assert {each.kind for each in draw(7, 600.0, 150, VICTIMS, nodes=3)} >= {"leader", "node"}


def fault(kind: str, victim: str, began: float, ended: float) -> Fault:
    return Fault(Planned(began, kind, victim, ended - began), began, ended)


def called(at: float, worker: str, key: str = "e/r:1/t/1") -> Called:
    return Called(at, key, "e", "t", worker, 200)


@pytest.mark.parametrize(("made", "counts"), [
    (fault("kill", "worker-g", 12, 12), True),
    (fault("stop", "worker-g", 5, 11), True),       # it went on when the call had been made
    (fault("silent", "worker-g", 15, 40), True),
    (fault("broker", BROKER, 8, 9), True),          # services were still looking for it
    (fault("stop", "worker-g", 2, 9), True),        # the lease it lost may be claimed a lease's time later
    (fault("stop", "worker-g", -40, -30), False),   # long over before the call
    (fault("kill", "worker-g", 25, 25), False),     # after the second one
    (fault("kill", "worker-h", 12, 12), False),     # somebody else
    (fault("kill", "scheduler-g", 12, 12), False),  # makes no calls
    (fault("clock", "worker-g", 12, 15), False),    # no reason to call again
])  # fmt: skip
def test_a_second_call_is_explained_by_a_fault_that_hit_its_first_worker_in_between(made: Fault, counts: bool) -> None:
    (again,) = repeated([called(10, "worker-g"), called(20, "worker-h")], [made])
    assert (again.by is made) is counts


def test_a_worker_that_goes_on_in_a_run_another_has_taken_is_seen() -> None:
    calls = [called(k, worker, f"e/r:1/t/{k}") for k, worker in enumerate(("worker-g", "worker-h", "worker-g"))]
    assert [each.by for each in went_on(calls, [])] == [None]
    assert went_on(calls[:2], []) == []
    assert explained(("worker-h",), 1, 2, [fault("reset", "worker-h", 1.5, 1.5)]) is not None
