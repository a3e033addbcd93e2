"""The reasons of `why` on folded histories: places of keys, and turns at a tool."""

import pytest
from msgspec.structs import replace

from shared.answers.why import limits as why_limits
from shared.answers.why.facts import Answer, Queued
from shared.engine.scheduling.limit_ledger import Ledger
from shared.events.beat import Busy, Calling
from shared.events.stamp import stamp
from tests.unit.answers.why.stalls import LATER, PLAIN, Stall, worker, world_of
from tests.unit.engine.support import NOW

LIMITED = "- {step: start, spec: {policy: {limits: {key: k, max: 1, rate: 2/1m}}}, tool: {kind: noop}}"


def test_places_tell_their_holders_and_the_line() -> None:
    stall = Stall(LIMITED)
    ledger = Ledger({"x2/a:1": NOW}, heads={"s2": (-9, 0, "", "x3/a:1.-000001")})
    reason = stall.reason("limit.places", ledgers={"k": ledger}, others={"x2": Answer("x2", "paused")})
    assert (reason.values["before"], [each.execution_id for each in reason.because]) == (1, ["x2"])
    assert reason.values["holders"] == [{"execution_id": "x2", "place": "a:1", "since": stamp(NOW), "own": False}]
    wants = why_limits.wanted(stall.view(), lambda _: stall.plan, {})
    assert why_limits.followed({"k": ledger}, wants, "x1") == ["x2"]
    assert why_limits.followed({}, wants, "x1") == []


def test_a_rate_tells_when_it_lets_the_next_in() -> None:
    ledger = Ledger(given=[LATER - 30, LATER - 10], count=2, period_s=60)
    reason = Stall(LIMITED).reason("limit.rate", ledgers={"k": ledger})
    assert reason.until == stamp(LATER + 30)


def test_a_free_place_that_nobody_gives() -> None:
    stall = Stall(LIMITED)
    assert stall.doubts(world_of()) == {"scheduler"}
    assert stall.doubts(world_of(ledgers={"k": Ledger({"x2/a:1": NOW})})) == frozenset()
    assert stall.reason("scheduler.gone", members={"scheduler": ()}).values["key"] == "k"
    assert "one is free" in stall.reason("limit.places", members={"scheduler": ("s",)}).text


BUSY = Busy("noop", 1, 1, 3, [Calling("x9", "long:1", -1, "long", "sleep", NOW)])  # of a kind that the step needs


@pytest.mark.parametrize("held", [False, True])
def test_a_run_for_which_the_tool_has_no_turn_is_told_who_has_them(held: bool) -> None:
    key = ("x1", "start:1", -1)
    full = replace(worker("w1", *([key] if held else [])), busy=(BUSY,))
    reason = Stall(PLAIN).reason("tool.busy", workers=(full,), queued={key[1:]: Queued(1, NOW, 0)})
    assert reason.kind == "blocked"
    assert "execution x9 long:1 task sleep" in reason.text
    assert reason.values["workers"] == {"w1": {"size": 1, "taken": 1, "waiting": 3}}


def test_a_worker_with_a_turn_left_takes_it() -> None:
    full, free = replace(worker("w1"), busy=(BUSY,)), replace(worker("w2"), busy=(Busy("noop", 1),))
    Stall(PLAIN).reason("pool.queued", workers=(full, free), queued={("start:1", -1): Queued(1, NOW, 0)})
