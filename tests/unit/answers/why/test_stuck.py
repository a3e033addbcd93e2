"""Which reasons of `why` raise a doubt, and what becomes of it."""

import pytest
from msgspec.structs import replace

from shared.answers.why.facts import CAUSES, MOVERS, Answer, Mover, Pool, Queued, Reason
from shared.answers.why.pools import MENDED_S, SWEEP_S
from shared.answers.why.stuck import STILL_S, Doubt, doubts, finding, patience
from shared.events import model as ev
from tests.unit.answers.why.stalls import LATER, PLAIN, Stall, worker, world_of
from tests.unit.engine.support import NOW

ALIVE = {"scheduler": ("s",)}


def stranded(floor: int = 5, held: int = 1) -> dict[str, object]:
    """Its command is message 5, delivered, and the consumer has everything up to `floor` for done."""
    return {"queued": {("start:1", -1): Queued(5, NOW)},
            "pools": {"default": Pool("default", held=held, delivered=9, floor=floor)}, "members": ALIVE}


def test_every_mover_is_that_of_a_cause() -> None:
    assert MOVERS.keys() <= CAUSES


@pytest.mark.parametrize(("cause", "mover"), [
    ("running", "itself"), ("turn", "itself"), ("wait.time", "itself"), ("command.lost", "itself"),
    ("paused", "someone"), ("wait.signal", "someone"), ("scheduler.gone", "someone"), ("pool.no_workers", "someone"),
    ("log.corrupt", "nothing"), ("router.silent", "itself"),
])
def test_a_cause_says_who_makes_it_go_away(cause: str, mover: Mover) -> None:
    reason = Reason(cause, "blocked", "…")
    assert reason.mover == mover
    assert bool(doubts(Answer("x1", "running", (reason,)))) is (mover == "nothing")
    assert replace(reason, moved_by="someone").mover == "someone"


@pytest.mark.parametrize("facts", [stranded(5), stranded(7, held=3), stranded(2, held=0)])
def test_a_command_that_its_consumer_takes_for_done_is_stranded(facts: dict[str, object]) -> None:
    stall = Stall(PLAIN)
    for say in (lambda: None, lambda: stall.says(ev.StepStarted(), worker="dead")):
        say()
        reason = stall.reason("command.stranded", workers=(worker(),), **facts)
        assert (reason.mover, reason.mended_s) == ("itself", MENDED_S)
        assert next(iter(doubts(stall.why(workers=(worker(),), **facts)))).cause == "command.stranded"


def test_a_command_that_is_held_or_waits_is_not_stranded() -> None:
    stall, pool = Stall(PLAIN), Pool("default", held=1, delivered=9, floor=4)
    for seq in (5, 12):
        queued = {("start:1", -1): Queued(seq, NOW)}
        assert doubts(stall.why(workers=(worker(),), queued=queued, pools={"default": pool})) == {}
    holder = worker("w1", ("x1", "start:1", -1))
    assert doubts(stall.why(workers=(holder,), **stranded())) == {}, "whoever has it goes on with it"


def test_a_command_that_is_nowhere_after_its_worker_died_is_lost() -> None:
    """No lease that expires brings back what is not in the queue."""
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), worker="dead")
    reason = stall.reason("command.lost", workers=(worker(),), members=ALIVE)
    assert "dead had it before and is gone" in reason.text
    assert reason.mended_s == MENDED_S > 2 * SWEEP_S
    anew = replace(worker("dead"), started=LATER - 3)
    assert stall.reason("command.lost", workers=(anew,), members=ALIVE).values["came_back_from"] == "dead"
    assert stall.doubts(world_of(workers=(worker(),))) == {"scheduler"}


def test_without_a_scheduler_someone_has_to_start_one() -> None:
    facts = {**stranded(), "members": {"scheduler": ()}}
    answer = Stall(PLAIN).why(workers=(worker(),), **facts)
    assert [reason.cause for reason in answer.reasons if reason.kind == "blocked"] == ["scheduler.gone"]
    assert doubts(answer) == {}


def test_who_waits_for_a_stuck_execution_is_stuck() -> None:
    child = Answer("c1", "running", (Reason("log.corrupt", "blocked", "unreadable"),), as_of=7)
    answer = Answer("x1", "running", (Reason("wait.child", "blocked", "waits", because=(child,)),), as_of=3)
    ((doubt, reason),) = doubts(answer).items()
    assert doubt == Doubt("c1", 7, "log.corrupt")
    told = finding("x1", 3, doubt, reason, 12.2)
    assert (told.rule, told.seq) == ("stuck", 3)
    assert told.message == "nothing will move it (log.corrupt, for 12 s): execution c1, which it waits for: unreadable"


def test_an_execution_without_a_reason_is_in_doubt() -> None:
    note = Reason("deadline", "note", "…")
    assert [doubt.cause for doubt in doubts(Answer("x1", "running", (note,), as_of=3))] == [""]
    assert doubts(Answer("x1", "completed", (Reason("over", "over", "…"),))) == {}


def test_what_is_mended_gets_the_time_that_takes() -> None:
    assert patience(Reason("log.corrupt", "blocked", "…")) == STILL_S
    assert patience(Reason("command.lost", "blocked", "…", mended_s=MENDED_S)) == MENDED_S
