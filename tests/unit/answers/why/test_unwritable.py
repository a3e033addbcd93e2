"""A store that accepts no writes is said first, and nobody is blamed for the silence that follows."""

from shared.answers.why import unwritable
from shared.answers.why.facts import Answer, Pool, Reason
from shared.answers.why.remedies import remedy, start
from tests.unit.answers.why.stalls import PLAIN, Stall, causes

ERROR = "JetStream stream 'NOETL > KV_noetl_pools' write error: no space left on device"
UNATTENDED = Pool("default", managed=True, wanted=1, state="unattended", message="no pools service runs")


def test_the_store_comes_first_and_the_pools_service_is_not_blamed() -> None:
    stalled = Stall(PLAIN).why(pools={"default": UNATTENDED})
    assert "no pools service runs" in stalled.reasons[0].text
    answer = unwritable.explained(stalled, ERROR)
    assert causes(answer) == ["store.refuses", "pool.no_workers"]
    store, silent = answer.reasons
    assert ERROR in store.text
    assert (store.remedy, store.mover) == (remedy("make_room"), "someone")
    assert "no pools service runs" not in silent.text
    assert (silent.remedy, silent.mover, silent.run_id) == (remedy("after_store"), "itself", "start:1")


def test_it_is_said_once_for_an_execution_and_those_it_waits_for() -> None:
    stalled = Stall(PLAIN).why(pools={"default": UNATTENDED})
    assert causes(unwritable.explained(stalled, ERROR, first=False)) == ["pool.no_workers"]


def test_what_is_over_needs_no_store() -> None:
    over = Answer("x1", "completed", (Reason("over", "over", "it is over, completed"),))
    assert unwritable.explained(over, ERROR) == over


def test_a_scheduler_that_is_not_heard_is_gone_all_the_same() -> None:
    gone = Reason("scheduler.gone", "blocked", "no scheduler is running", remedy=start("scheduler"))
    assert unwritable.explained(Answer("x1", "running", (gone,)), ERROR).reasons[1:] == (gone,)
