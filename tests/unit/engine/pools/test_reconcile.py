"""What a pool needs done follows from what is wanted and what is there."""

import pytest
from msgspec.structs import replace

from shared.engine.pools.reconcile import (
    CRASHING_AFTER,
    FAILING_AFTER,
    SILENT_S,
    Drained,
    Kill,
    Seen,
    Start,
    Stop,
    Wanted,
    decide,
    drained,
    settled,
    state,
)

WANTED = Wanted(2, "new", 20.0)


def worker(name: str, **fields: object) -> Seen:
    return replace(Seen(name, "new", True), **fields)  # type: ignore[arg-type]  # fields of the Struct


def test_missing_workers_are_started_together() -> None:
    assert decide(replace(WANTED, workers=3), [worker("a")]) == [Start(2)]


def test_a_worker_that_is_going_counts_no_more() -> None:
    assert decide(WANTED, [worker("a"), worker("b", stopping=True)]) == [Start(1)]


def test_nothing_is_done_when_everything_is_as_wanted() -> None:
    assert decide(WANTED, [worker("a"), worker("b")]) == []
    assert settled(WANTED, [worker("a"), worker("b"), worker("c", stopping=True)])


def test_the_idle_go_first_then_those_with_the_least_to_finish() -> None:
    there = [worker("a", held=3), worker("b"), worker("c", held=1), worker("d", ready=False)]
    assert decide(replace(WANTED, workers=1), there) == [Stop("d", 20.0), Stop("b", 20.0), Stop("c", 20.0)]


def test_a_pool_of_no_workers_ends_them_all() -> None:
    assert decide(replace(WANTED, workers=0), [worker("a")]) == [Stop("a", 20.0)]
    assert state(replace(WANTED, workers=0), [], paused=False) == "empty"


def test_a_new_worker_is_ready_before_an_old_one_goes() -> None:
    there = [worker("a", template="old", held=2), worker("b", template="old")]
    assert decide(WANTED, there) == [Start(1)]
    there.append(worker("c", ready=False))
    assert decide(WANTED, there) == []
    there[-1] = worker("c")
    assert decide(WANTED, there) == [Stop("b", 20.0)]


def test_a_rolling_restart_ends_with_new_workers_alone() -> None:
    there, most, steps = [worker(name, template="old") for name in "ab"], 0, 0
    while (actions := decide(WANTED, there)) and steps < 20:
        steps += 1
        for action in actions:
            match action:
                case Start(count=count):
                    there += [worker(f"n{steps}-{i}") for i in range(count)]
                case Stop(name=name):
                    there = [each for each in there if each.name != name]
        most = max(most, len(there))
        assert len(there) >= 2
    assert (len(there), most) == (2, 3)
    assert settled(WANTED, there)


def test_scaling_down_during_a_rolling_restart_does_not_wait_for_it() -> None:
    there = [worker(name, template="old") for name in "abc"] + [worker("d", ready=False)]
    assert decide(replace(WANTED, workers=1), there) == [Stop("a", 20.0), Stop("b", 20.0)]


def test_nothing_is_started_that_could_not_connect() -> None:
    blocked = replace(WANTED, blocked="no account")
    assert decide(blocked, []) == []
    assert decide(blocked, [worker("a", template="old"), worker("b", template="old")]) == []
    assert state(blocked, [], paused=False) == "waiting"


def test_a_drain_ends_the_workers_once_its_waiting_is_over() -> None:
    draining = replace(WANTED, drain=True)
    there = [worker("a", held=1), worker("b")]
    assert (decide(draining, there), state(draining, there, paused=True)) == ([], "draining")
    over = replace(draining, drain_over=True)
    assert decide(over, there) == [Stop("a", 0.0), Stop("b", 0.0)]
    assert state(over, [worker("a", stopping=True)], paused=True) == "draining"
    assert (decide(over, []), state(over, [], paused=True), settled(over, [])) == ([], "drained", True)


def test_a_pool_that_is_deleted_lets_its_workers_finish() -> None:
    deleting = replace(WANTED, deleting=True)
    assert decide(deleting, [worker("a", held=1)]) == [Stop("a", 20.0)]
    assert state(deleting, [], paused=False) == "deleting"


def test_workers_of_others_are_left_alone() -> None:
    theirs = replace(WANTED, ours=False, drain=True, drain_over=True)
    there = [worker("a", template="", held=1)]
    assert decide(theirs, there) == []
    assert state(theirs, there, paused=True) == "drained"


@pytest.mark.parametrize(("there", "paused", "word"), [
    ([worker("a"), worker("b")], False, "ready"),
    ([worker("a"), worker("b")], True, "paused"),
    ([worker("a"), worker("b", ready=False)], False, "scaling"),
    ([worker("a"), worker("b", template="old")], False, "scaling"),
    ([worker("a", failures=FAILING_AFTER), worker("b")], False, "failing"),
    ([worker("a"), worker("b", ready=False, silent_s=SILENT_S + 1)], False, "silent"),
    ([worker("a"), worker("b", silent_s=SILENT_S - 1)], False, "ready"),
])
def test_one_word_says_how_it_stands(there: list[Seen], paused: bool, word: str) -> None:
    assert state(WANTED, there, paused=paused) == word


def test_workers_that_ended_by_themselves_make_a_pool_crashing_whoever_they_were() -> None:
    there = [worker("a"), worker("b")]
    assert state(WANTED, there, paused=False, crashes=CRASHING_AFTER) == "crashing"
    assert state(WANTED, there, paused=False, crashes=CRASHING_AFTER - 1) == "ready"


def test_a_worker_that_is_silent_for_too_long_is_killed_in_its_place() -> None:
    silent = worker("b", ready=False, silent_s=31.0)
    assert decide(replace(WANTED, silent_s=30.0), [worker("a"), silent]) == [Kill("b", 31.0)]
    assert decide(replace(WANTED, silent_s=32.0), [worker("a"), silent]) == []
    assert not settled(WANTED, [worker("a"), silent])


def test_one_that_is_going_and_silent_is_not_waited_for() -> None:
    """A frozen process hears no SIGTERM, and may have an hour to finish."""
    going = worker("c", ready=False, silent_s=31.0, stopping=True)
    assert decide(WANTED, [worker("a"), worker("b"), going]) == [Kill("c", 31.0)]
    assert decide(replace(WANTED, deleting=True), [going]) == [Kill("c", 31.0)]


def test_a_worker_that_is_not_ours_is_not_killed() -> None:
    assert decide(replace(WANTED, ours=False), [worker("a", silent_s=99.0)]) == []


@pytest.mark.parametrize(("before", "now", "held", "report"), [
    (5, 0, 0, Drained(5, 0, 0)),
    (5, 2, 0, Drained(3, 0, 2)),
    (5, 2, 1, Drained(3, 1, 1)),
    (0, 0, 0, Drained()),
    (2, 3, 9, Drained(0, 3, 0)),
])
def test_what_a_drain_reports_adds_up(before: int, now: int, held: int, report: Drained) -> None:
    assert drained(before, now, held) == report
