"""Of two live processes under one name one ends, and always only one."""

import asyncio

import pytest

from shared.runtime.service import one_name
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.one_name import Life, NameTaken, OneName, Word, ends
from tests.contract.bus.conftest import Connect

USERS = ["router", "scheduler", "worker_default", "pools", "projector"]
FIRST, SECOND = Life(1.0, "b"), Life(2.0, "a")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_name, "BEAT_S", 0.1)


async def test_the_second_does_not_start_and_the_first_stays(connect_as: Connect) -> None:
    for user in USERS:
        names = [OneName(await connect_as(user), SystemClock(), user, "same") for _ in range(2)]
        await names[0].take()
        keeping = asyncio.create_task(names[0].keep())
        with pytest.raises(NameTaken, match="alive under the name same: give each instance a NOETL_INSTANCE"):
            await names[1].take()
        await asyncio.sleep(0.3)
        assert not keeping.done()
        keeping.cancel()
        for name in names:
            await name.close()


async def test_of_two_that_start_together_one_ends(connect_as: Connect) -> None:
    names = [OneName(await connect_as("router"), SystemClock(), "router", "same") for _ in range(2)]
    found = await asyncio.gather(*(name.take() for name in names), return_exceptions=True)
    assert [type(each) for each in found] in ([type(None), NameTaken], [NameTaken, type(None)])
    for name in names:
        await name.close()


async def test_one_that_was_away_while_another_started_ends(
    connect_as: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [OneName(await connect_as("scheduler"), SystemClock(), "scheduler", "same") for _ in range(2)]
    await names[0].take()  # and hears nothing from here on
    monkeypatch.setattr(one_name, "SETTLE_S", 0.0)
    await names[1].take()
    keeping = asyncio.create_task(names[1].keep())
    with pytest.raises(NameTaken):
        await asyncio.wait_for(names[0].keep(), 5)
    await asyncio.sleep(0.3)
    assert not keeping.done()
    keeping.cancel()
    for name in names:
        await name.close()


async def test_other_names_and_unreadable_words_are_nothing(connect_as: Connect) -> None:
    bus = await connect_as("router")
    name = OneName(bus, SystemClock(), "router", "own")
    other = OneName(await connect_as("router"), SystemClock(), "router", "other")
    await name.take()
    await other.take()
    keeping = asyncio.create_task(name.keep())
    await bus.publish("noetl.members.router.own", b"{")
    await asyncio.sleep(0.3)
    assert not keeping.done()
    keeping.cancel()
    for each in (name, other):
        await each.close()


@pytest.mark.parametrize("settled", [(False, False), (False, True), (True, False), (True, True)])
def test_exactly_one_of_two_ends(settled: tuple[bool, bool]) -> None:
    words = [Word(life, is_settled, "h", 1) for life, is_settled in zip((FIRST, SECOND), settled, strict=True)]
    first, second = ends(FIRST, settled[0], words[1]), ends(SECOND, settled[1], words[0])
    assert first != second
    assert second == (settled != (False, True) and settled != (True, True))
