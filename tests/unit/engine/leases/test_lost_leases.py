"""Which leases were lost, as whoever claims a run next counts them, and as the checker does."""

import pytest

from shared.engine.leases.lost_leases import Lost, counted, failure
from shared.engine.pipeline.history import accept
from shared.engine.pipeline.local_history import accept_loop
from shared.events import model as ev
from shared.events.failure import WORKER_LOST
from shared.events.outcome import ok
from shared.events.record import Lease, Record
from shared.events.run_index import RUN
from shared.events.stamp import stamp
from tests.unit.answers import histories
from tests.unit.answers.histories import CHAIN, at, history
from tests.unit.engine.support import NOW

T = 1_000
DONE = ev.TaskDone("t", 1, ok(), "continue")
CLAIM = ev.StepStarted()
GIVEN = ev.LeaseReleased("the worker stops")


def said(number: int, *events: ev.Event, n: int = 1, index: int = RUN) -> Record:
    """By the lease of that number."""
    writer = "worker" if index == RUN else "iteration"
    lease = Lease("r", "s", (T, number), f"w{number}", index)
    return Record("x", writer, n, stamp(float(number)), events, lease=lease)  # type: ignore[arg-type]


def lost(*records: Record) -> list[str]:
    return [lease.worker for lease in accept(records, "r", RUN).lost]


def test_a_lease_that_is_followed_by_another_is_lost() -> None:
    assert lost(said(1, CLAIM), said(2, CLAIM), said(3, CLAIM)) == ["w1", "w2"]


def test_a_finished_task_begins_the_count_anew() -> None:
    assert lost(said(1, CLAIM), said(2, CLAIM), said(2, DONE, n=2), said(3, CLAIM)) == ["w2"]


def test_a_lease_that_was_handed_back_on_purpose_is_not_lost() -> None:
    assert lost(said(1, CLAIM), said(2, CLAIM, GIVEN), said(3, CLAIM)) == ["w1"]


@pytest.mark.parametrize(("records", "held"), [
    ([], False),
    ([said(1, CLAIM)], True),
    ([said(1, CLAIM, GIVEN)], False),
    ([said(1, CLAIM, GIVEN), said(2, CLAIM)], True),
    ([said(1, CLAIM), said(2, CLAIM), said(1, GIVEN, n=2)], True),
    ([said(1, CLAIM), said(2, CLAIM, GIVEN), said(1, DONE, n=2)], False),
    ([said(1, CLAIM, ev.TaskWaiting("t", 1, "t/1", until="later"))], False),
    ([said(1, CLAIM, ev.StepDone())], False),
])
def test_a_run_is_held_while_its_latest_lease_has_not_ended(records: list[Record], held: bool) -> None:
    assert accept(records, "r", RUN).held == held
    assert accept_loop(records, "r").held == held


def test_an_iteration_of_a_local_loop_is_held_with_the_loop() -> None:
    first, taken, given = said(1, CLAIM, index=0), said(2, CLAIM), said(2, GIVEN, n=2)
    assert accept([first, taken], "r", 0).held
    assert not accept([first, taken, given], "r", 0).held
    assert accept([first, taken, given, said(3, CLAIM), given], "r", 0).held


def test_a_lease_that_ended_while_the_broker_was_away_counts_only_where_nothing_may_run_again() -> None:
    after = ev.StepStarted(outage=True)
    found = accept((said(1, CLAIM), said(2, after), said(3, after), said(4, after), said(5, CLAIM)), "r", RUN).lost
    assert [lease.worker for lease in counted(found, 3)] == ["w4"]
    assert failure(found, 2) is None
    assert [lease.worker for lease in counted(found, 1)] == ["w1", "w2", "w3", "w4"]
    unseen = accept((said(2, after), said(3, CLAIM)), "r", RUN).lost
    assert [lease.worker for lease in counted(unseen, 3)] == ["w2"]


def test_a_lease_that_ended_with_a_wait_is_not_lost_and_is_progress() -> None:
    waits = ev.TaskWaiting("t", 1, "t/1", until="later")
    assert lost(said(1, CLAIM), said(2, CLAIM, waits), said(3, CLAIM)) == []


def test_deliveries_before_the_first_record_count_as_one_lease() -> None:
    assert lost(said(4, CLAIM), said(5, CLAIM)) == ["", "w4"]


def test_of_a_lease_that_left_no_word_is_told_when_its_command_was_issued() -> None:
    at = int(NOW * 1e9)
    first = Record("x", "worker", 1, stamp(NOW + 20), (CLAIM,), lease=Lease("r", "s", (at, 3), "w"))
    second = Record("x", "worker", 1, stamp(NOW + 30), (CLAIM,), lease=Lease("r", "s", (at, 4), "w"))
    (unseen, _) = accept([first, second], "r", RUN).lost
    assert (unseen.worker, unseen.since, unseen.last) == ("", stamp(NOW), "")
    error = failure((unseen, unseen), 2)
    assert error is not None
    assert f"a worker that died before its first word (the command is of {stamp(NOW)})" in error["message"]
    assert error["leases"][0] == {"worker": "", "since": stamp(NOW), "last": ""}


def test_successive_lives_of_one_name_are_told_apart() -> None:
    lives = [Record("x", "worker", 1, stamp(NOW + n), (CLAIM,), lease=Lease("r", "s", (T, n), "w", pid=40 + n))
             for n in (1, 2, 3)]
    found = accept(lives, "r", RUN).lost
    assert [(lease.worker, lease.pid) for lease in found] == [("w", 41), ("w", 42)]
    error = failure(found, 2)
    assert error is not None
    assert f"w (pid 41) from {stamp(NOW + 1)} to {stamp(NOW + 1)}; w (pid 42)" in error["message"]
    assert [lease["pid"] for lease in error["leases"]] == [41, 42]


def test_what_a_superseded_lease_still_says_does_not_count() -> None:
    assert lost(said(1, CLAIM), said(2, CLAIM), said(1, DONE, n=2), said(3, CLAIM)) == ["w1", "w2"]


def test_progress_of_an_iteration_is_progress_of_its_local_loop() -> None:
    first, second, third = said(1, CLAIM), said(2, CLAIM), said(3, CLAIM)
    one = said(2, CLAIM, DONE, index=0)
    assert [each.worker for each in accept_loop([first, second, third], "r").lost] == ["w1", "w2"]
    assert [each.worker for each in accept_loop([first, second, one, third], "r").lost] == ["w2"]


@pytest.mark.parametrize(("found", "most", "fails"), [
    ((), 1, False),
    ((Lost("a", "1", "2"),), 1, True),
    ((Lost(),), 1, False),
    ((Lost(), Lost("a", "1", "2")), 2, True),
    ((Lost("a", "1", "2"), Lost("b", "3", "4")), 3, False),
])
def test_a_run_fails_once_so_many_leases_are_lost(found: tuple[Lost, ...], most: int, fails: bool) -> None:
    """With at most one lease the claim is in the log before anything runs: silence is no lease."""
    assert (failure(found, most) is not None) == fails


def test_the_failure_names_the_workers_and_when() -> None:
    error = failure((Lost("a", "10:00", "10:01"), Lost("b", "10:02", "10:03")), 2)
    assert error is not None
    assert error["kind"] == WORKER_LOST
    assert list(error) == ["kind", "retryable", "message", "leases"]  # as in the logs of older versions
    assert "a from 10:00 to 10:01; b from 10:02 to 10:03" in error["message"]


def lost_history(leases: int) -> histories.Entries:
    """A good day's chain whose first run lost the lease that began it and so many more, and failed for it."""
    entries = history(CHAIN)
    entries = entries[: at(entries, ev.StepDone)]
    first = entries[at(entries, ev.StepStarted)][1].lease
    assert first is not None
    for number in range(1, leases + 2):
        lease = Lease(first.run_id, first.step, (first.epoch[0] + 1, number), f"w{number}")
        entries = histories.later(entries, Record(CHAIN, "worker", 1, stamp(2e9 + number), (CLAIM,), lease=lease))
    found = accept([record for _, record in entries if record.lease is not None], first.run_id, RUN).lost
    error = failure(found, 1)
    assert error is not None
    return histories.later(entries, Record(CHAIN, "worker", 2, stamp(2.1e9), (ev.StepFailed(error),), lease=lease))


def test_the_checker_accepts_a_failure_whose_lost_leases_the_log_shows() -> None:
    assert "lease" not in histories.rules(CHAIN, lost_history(2))
    assert "pipeline" not in histories.rules(CHAIN, lost_history(2))


def test_the_checker_sees_a_failure_for_leases_that_were_not_lost() -> None:
    assert "lease" in histories.rules(CHAIN, lost_history(1))
