"""Alarms follow the clock they are given, also when it is set forward while they sleep."""

import asyncio

import pytest

from shared.runtime.control import alarms


class Settable:
    skew = 0.0

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_a_clock_that_is_set_forward_rings_what_is_due_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "MAX_SLEEP_S", 0.02)
    clock, rung = Settable(), asyncio.Queue[str]()
    found = alarms.Alarms(clock, rung.put)
    running = asyncio.create_task(found.run())
    try:
        found.set(clock.time + 8 * 3600, "in the morning")
        await asyncio.sleep(0.1)
        assert rung.empty()
        clock.time += 8 * 3600
        assert await asyncio.wait_for(rung.get(), 5) == "in the morning"
    finally:
        running.cancel()
        await asyncio.wait({running})


def test_no_alarm_sleeps_through_a_clock_that_was_set() -> None:
    assert alarms.MAX_SLEEP_S <= 30.0
