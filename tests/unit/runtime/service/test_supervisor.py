"""The supervisor: restarts with growing pauses, stops when told, gives up when asked to."""

import asyncio

import pytest

from shared.runtime.service import supervisor
from shared.runtime.service.supervisor import GaveUp, pause_before, supervise


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.001)


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [pause_before(n) for n in range(1, 40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == supervisor.LONGEST_PAUSE_S


async def test_a_life_that_ends_is_started_again_until_stop() -> None:
    stop, lives = asyncio.Event(), []

    async def run() -> int:
        lives.append(1)
        if len(lives) == 3:
            stop.set()
        return 1

    await asyncio.wait_for(supervise("x", run, stop), 5)
    assert len(lives) == 3


async def test_an_error_is_a_life_that_ended() -> None:
    stop, lives = asyncio.Event(), []

    async def run() -> int:
        lives.append(1)
        if len(lives) == 2:
            stop.set()
        raise OSError("gone")

    await asyncio.wait_for(supervise("x", run, stop), 5)
    assert len(lives) == 2


async def test_giving_up_names_the_child_and_the_last_reason() -> None:
    async def run() -> int:
        raise OSError("no such file")

    with pytest.raises(GaveUp, match="router failed 3 times in a row: no such file"):
        await asyncio.wait_for(supervise("router", run, asyncio.Event(), give_up_after=3), 5)


async def test_stop_during_a_pause_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 60.0)
    stop = asyncio.Event()

    async def run() -> int:
        asyncio.get_running_loop().call_later(0.01, stop.set)
        return 1

    await asyncio.wait_for(supervise("x", run, stop), 3)
