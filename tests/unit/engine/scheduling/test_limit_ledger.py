"""Who gets the next place of a key."""

import pytest

from shared.engine.scheduling.limit_ledger import Ledger, decode, encode, moved, settle
from shared.engine.scheduling.limits import Want
from shared.events.model import Limited

NOW = 1000.0
ALONE: tuple[str, ...] = ("me",)


def want(execution: str, run: str = "s:1", *, most: int = 1, rate: tuple[int, float] = (0, 0.0), priority: int = 5,
         at: str = "1", index: int = -1, granted: bool = False) -> Want:
    return Want(execution, Limited("k", most, *rate), run, index, priority, at, granted)


def names(wants: list[Want]) -> list[str]:
    return [found.execution_id for found in wants]


def test_as_many_get_a_place_as_there_are() -> None:
    settled = settle(Ledger(), "me", [want("a", most=2), want("b", most=2), want("c", most=2)], (), NOW, ALONE)
    assert names(settled.granted) == ["a", "b"]
    assert list(settled.ledger.holders) == ["a/s:1", "b/s:1"]
    assert settled.ledger.heads["me"][3].startswith("c/")


def test_a_place_given_back_goes_to_the_next() -> None:
    first = settle(Ledger(), "me", [want("a"), want("b")], (), NOW, ALONE)
    second = settle(first.ledger, "me", [want("b")], {"a/s:1"}, NOW + 1, ALONE)
    assert names(second.granted) == ["b"]
    assert list(second.ledger.holders) == ["b/s:1"]
    assert second.ledger.heads == {}


def test_settling_again_changes_nothing_and_names_the_holder_again() -> None:
    first = settle(Ledger(), "me", [want("a"), want("b")], (), NOW, ALONE)
    second = settle(first.ledger, "me", [want("a"), want("b")], (), NOW + 9, ALONE)
    assert second.ledger == first.ledger
    assert names(second.granted) == ["a"]


def test_priority_goes_before_age() -> None:
    wants = [want("old", at="1"), want("urgent", at="9", priority=8)]
    assert names(settle(Ledger(), "me", wants, (), NOW, ALONE).granted) == ["urgent"]


def test_who_holds_fewer_goes_before_who_is_older() -> None:
    wants = [want("a", "s:1", most=3, at="1"), want("a", "s:2", most=3, at="1"), want("a", "s:3", most=3, at="1"),
             want("b", "s:1", most=3, at="5")]
    assert sorted(names(settle(Ledger(), "me", wants, (), NOW, ALONE).granted)) == ["a", "a", "b"]


def test_no_more_than_the_rate_within_any_period() -> None:
    ledger, given, now = Ledger(), [], NOW
    wants = [want(f"e{n:02}", most=0, rate=(3, 10.0), at=f"{n:02}") for n in range(8)]
    while wants:
        settled = settle(ledger, "me", wants, [f"{done}/s:1" for done, _ in given], now, ALONE)
        given += [(found.execution_id, now) for found in settled.granted]
        wants = [found for found in wants if found.execution_id not in names(settled.granted)]
        ledger = settled.ledger
        assert settled.again is None or settled.again > now
        now = settled.again or now + 1
    times = [at for _, at in given]
    assert [name for name, _ in given] == [f"e{n:02}" for n in range(8)]
    assert all(later - earlier >= 10.0 for earlier, later in zip(times, times[3:], strict=False))
    assert len(ledger.given) <= 3


def test_a_grant_that_its_log_has_later_counts_from_then() -> None:
    ledger = Ledger(given=[1.0, 1.0, 2.0], count=3, period_s=10.0)
    assert moved(ledger, [(1.0, 4.0)]).given == [1.0, 2.0, 4.0]
    assert moved(ledger, [(0.5, 4.0)]).given == [1.0, 1.0, 2.0, 4.0], "one that the ledger no longer has"
    assert moved(ledger, []) == ledger


def test_the_first_of_another_scheduler_goes_first() -> None:
    theirs = settle(Ledger(holders={"x/s:1": 1.0}), "them", [want("b", at="1")], (), NOW, ("me", "them")).ledger
    mine = settle(theirs, "me", [want("c", at="2")], {"x/s:1"}, NOW, ("me", "them"))
    assert mine.granted == []
    assert names(settle(mine.ledger, "them", [want("b", at="1")], (), NOW, ("me", "them")).granted) == ["b"]


def test_the_head_of_a_scheduler_that_is_gone_holds_nobody_up() -> None:
    theirs = settle(Ledger(holders={"x/s:1": 1.0}), "them", [want("b", at="1")], (), NOW, ("me", "them")).ledger
    mine = settle(theirs, "me", [want("c", at="2")], {"x/s:1"}, NOW, ALONE)
    assert names(mine.granted) == ["c"]
    assert "them" not in mine.ledger.heads


def test_two_that_do_not_see_each_other_come_to_one_ledger() -> None:
    """Each takes the other for gone; they write as long as one of them changes something."""
    ledger, wants = Ledger(holders={"x/s:1": 1.0}), {"one": [want("b", at="1")], "two": [want("b", at="1")]}
    for _ in range(2):
        for me, mine in wants.items():
            settled = settle(ledger, me, mine, (), NOW, (me,), tidy=False)
            assert settled.granted == []
            ledger, before = settled.ledger, ledger
    assert ledger == before
    free = settle(ledger, "one", wants["one"], {"x/s:1"}, NOW, ("one",), tidy=False)
    assert names(free.granted) == ["b"]


def test_a_lost_ledger_is_written_anew_by_those_who_hold_its_places() -> None:
    settled = settle(Ledger(), "me", [want("a", granted=True), want("b")], (), NOW, ALONE)
    assert list(settled.ledger.holders) == ["a/s:1"]
    assert settled.granted == []


@pytest.mark.parametrize("ledger", [Ledger(), Ledger({"a/s:1": 1.5}, [1.5], {"me": (-5, 0, "1", "b/s:1")})])
def test_a_ledger_comes_back(ledger: Ledger) -> None:
    assert decode(encode(ledger)) == ledger
