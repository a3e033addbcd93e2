"""An execution whose templates are costly is decided at its pace."""

import asyncio

import pytest

from shared.dsl.templates.budget import spend
from shared.runtime.control.template_pace import BURST, SHARE, Pace


class _Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def _spent(pace: Pace, clock: _Clock, units: int) -> None:
    with pace.counting(clock.now()):
        spend(units)


def test_what_is_within_the_share_never_waits() -> None:
    pace, clock = Pace(), _Clock()
    for _ in range(1000):
        _spent(pace, clock, SHARE // 100)
        clock.at += 0.01
        assert not pace.is_over(clock.now())


def test_what_is_over_it_rests_until_it_is_paid_off() -> None:
    pace, clock = Pace(), _Clock()
    _spent(pace, clock, BURST + 2 * SHARE)
    assert pace.is_over(clock.now())
    asyncio.run(pace.rest(clock))  # type: ignore[arg-type]  # as above
    assert clock.at == pytest.approx(102.0, abs=0.01)
    assert not pace.is_over(clock.now())


def test_a_clock_that_is_set_back_makes_nothing_longer() -> None:
    pace, clock = Pace(), _Clock()
    _spent(pace, clock, BURST + SHARE)
    clock.at -= 50.0
    asyncio.run(pace.rest(clock))  # type: ignore[arg-type]  # as above
    assert clock.at < 102.0
