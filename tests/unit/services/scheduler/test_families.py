"""How large a family may grow."""

import pytest

from services.scheduler import families
from services.scheduler.families import Families, weight
from shared.engine.scheduling.state import Schedule
from shared.events.fields import Parent
from shared.events.request import Request

FULL = 50


class Clock:
    skew = 0.0

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MAX_FAMILY", FULL)


def child(of: str, root: str = "", path: str = "p") -> Request:
    return Request(path, execution_id="c", parent=Parent(of, "start:1", "w", root=root))


def family(root: str, count: int) -> list[Schedule]:
    return [Schedule(root), *(Schedule(f"{root}{n}", root=root) for n in range(count - 1))]


def test_below_the_bound_a_request_stays_as_it_is() -> None:
    sizes = Families(Clock(), lambda: family("a", FULL - 1), lambda: 1.0)
    assert sizes.admit(child("a")) == child("a")


def test_over_the_bound_it_says_why_not_and_other_families_are_not_concerned() -> None:
    live = [*family("a", FULL), *family("b", 2)]
    sizes = Families(Clock(), lambda: live, lambda: 1.0)
    for asked in (child("a"), child("a7", root="a")):
        assert "execution a and its descendants" in sizes.admit(asked).refused
    assert not sizes.admit(child("b")).refused


def test_what_is_asked_for_counts_before_it_has_begun() -> None:
    sizes = Families(Clock(), lambda: family("a", FULL - 5), lambda: 1.0)
    assert [bool(sizes.admit(child("a")).refused) for _ in range(7)] == [False] * 5 + [True] * 2


def test_there_is_room_again_when_some_have_ended() -> None:
    live, clock = family("a", FULL), Clock()
    sizes = Families(clock, lambda: live, lambda: 1.0)
    assert sizes.admit(child("a")).refused
    del live[FULL // 2 :]
    clock.at += families.COUNT_S + 0.1
    assert not sizes.admit(child("a")).refused


def test_each_scheduler_has_its_share_of_the_bound() -> None:
    sizes = Families(Clock(), lambda: family("a", FULL // 2), lambda: 0.5)
    assert sizes.admit(child("a")).refused


def test_many_that_ask_at_once_are_counted_anew() -> None:
    live: list[Schedule] = []
    sizes = Families(Clock(), lambda: live, lambda: 1.0)
    sizes.admit(child("a"))
    live += family("a", FULL)
    assert all(sizes.admit(child("b", path=str(n))).refused == "" for n in range(families.COUNT_EVERY))
    assert sizes.admit(child("a")).refused


def test_an_execution_weighs_more_than_itself() -> None:
    assert weight(Schedule("a")) == 1
    assert weight(Schedule("a", runs={"x:1": None, "y:1": None})) == 3  # type: ignore[dict-item]
