"""Turns at a kind that makes only so many calls at a time."""

import asyncio

import pytest

from shared.events.beat import Calling
from shared.tools.base import turns as module
from shared.tools.base.contract import ToolOptions
from shared.tools.base.turns import AT_ONCE, NoTurn, Turns
from shared.tools.toolbox import Tools


def about(number: int = 0) -> Calling:
    return Calling("x", "start:1", number, "start", "task", 0.0)


async def test_a_turn_that_is_left_goes_to_the_first_in_line() -> None:
    turns, got = Turns("python", 1), list[int]()
    held = await turns.take(about)

    async def next_one(number: int) -> None:
        mine = await turns.take(lambda: about(number))
        got.append(number)
        turns.leave(mine)

    line = [asyncio.create_task(next_one(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert turns.busy().waiting == 5
    turns.leave(held)
    await asyncio.gather(*line)
    assert got == list(range(5))
    assert (turns.busy().taken, turns.busy().waiting) == (0, 0)


async def test_no_more_calls_than_turns_at_any_time() -> None:
    turns, running, most = Turns("python", 2), 0, 0

    async def one() -> None:
        nonlocal running, most
        mine = await turns.take(about)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        turns.leave(mine)

    await asyncio.gather(*(one() for _ in range(50)))
    assert most == 2


async def test_a_turn_that_does_not_come_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAND_BACK_S", 0.05)
    turns = Turns("python", 1)
    held = await turns.take(about)
    with pytest.raises(NoTurn):
        await turns.take(about)
    assert turns.busy().waiting == 0
    turns.leave(held)
    assert await turns.take(about) > held


async def test_a_line_that_does_not_move_is_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAND_BACK_S", 0.05)
    turns, loop = Turns("python", 1), asyncio.get_running_loop()
    await turns.take(about)
    await asyncio.sleep(0.1)
    began = loop.time()
    for _ in range(AT_ONCE):
        with pytest.raises(NoTurn):
            await turns.take(about)
    assert loop.time() - began < 0.05
    with pytest.raises(NoTurn):  # more than so many a second stand in line first: nobody spins
        await turns.take(about)
    assert loop.time() - began >= 0.05


async def test_who_is_patient_waits_for_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAND_BACK_S", 0.02)
    turns = Turns("python", 1)
    held = await turns.take(about)
    waiting = asyncio.create_task(turns.take(about, patient=lambda: True))
    await asyncio.sleep(0.1)
    turns.leave(held)
    assert await waiting > held


@pytest.mark.parametrize("given", [False, True])
async def test_who_is_cancelled_in_line_keeps_nobody_out(given: bool) -> None:
    turns = Turns("python", 1)
    held = await turns.take(about)
    waiting = asyncio.create_task(turns.take(about))
    await asyncio.sleep(0)
    if given:
        turns.leave(held)
    waiting.cancel()
    await asyncio.wait({waiting})
    if not given:
        turns.leave(held)
    assert (turns.busy().taken, turns.busy().waiting) == (0, 0)


def test_python_takes_turns_unless_it_is_switched_off() -> None:
    options = ToolOptions(python_processes=3)
    found = Tools(options).turns("python")
    assert found is not None
    assert (found.size, Tools(options).turns("http")) == (3, None)
    assert Tools(options, ["python"]).turns("python") is None
