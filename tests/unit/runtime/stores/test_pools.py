"""Pools in KV: every change compares and sets, and whoever loses hears whose the other was."""

import asyncio

import pytest
from msgspec.structs import replace

from shared.bus.memory.bus import MemoryBus
from shared.bus.pool_consumer import FOR_EVER, moment
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool, plain
from shared.errors import Conflict, Refused
from shared.runtime.stores import pools
from shared.runtime.stores.documents import NotThere
from shared.runtime.stores.pools import Drain, Entry, Pause
from tests.support.clock import START
from tests.support.memory_bus import bus_in_turns

__all__ = ["bus_in_turns"]


def of(source: str) -> Pool:
    pool = compile_pool(source).document
    assert pool is not None
    return pool


async def put(bus: MemoryBus, source: str, by: str = "ada", **more: int) -> str:
    return (await pools.apply(bus, of(source), source, by, START, generation=more.get("generation")))[0]


async def test_apply_creates_then_changes_then_leaves_it(bus: MemoryBus) -> None:
    assert [await put(bus, plain("etl", n)) for n in (1, 2, 2)] == ["created", "changed", "unchanged"]
    entry, _ = await pools.find(bus, "etl")
    assert (entry.generation, entry.workers, entry.by) == (2, 2, "ada")


async def test_a_document_without_workers_leaves_the_number_as_it_was_scaled(bus: MemoryBus) -> None:
    await put(bus, plain("etl", 1))
    await pools.change(bus, "etl", "bob", START, lambda entry: replace(entry, workers=7))
    assert await put(bus, plain("etl", slots=3)) == "changed"
    assert (await pools.find(bus, "etl"))[0].workers == 7


async def test_an_apply_on_a_stale_base_is_refused_and_says_who_won(bus: MemoryBus) -> None:
    await put(bus, plain("etl", 1))
    await put(bus, plain("etl", 2), "bob", generation=1)
    with pytest.raises(Conflict, match=r"generation 2 by bob at 2023-11-14T22:13:20"):
        await put(bus, plain("etl", 3), "eve", generation=1)
    assert (await pools.find(bus, "etl"))[0].workers == 2


async def test_of_two_applies_at_once_one_wins(bus: MemoryBus) -> None:
    await put(bus, plain("etl", 1))
    done = await asyncio.gather(
        *(put(bus, plain("etl", n), f"user-{n}") for n in (2, 3)), return_exceptions=True
    )
    lost = [each for each in done if isinstance(each, Conflict)]
    won = (await pools.find(bus, "etl"))[0]
    assert (len(lost), done.count("changed")) == (1, 1)
    assert f"by user-{won.workers}" in str(lost[0])


async def test_what_people_say_at_once_is_all_kept(bus: MemoryBus) -> None:
    await put(bus, plain("etl", 1))
    await asyncio.gather(
        pools.change(bus, "etl", "ada", START, lambda entry: replace(entry, workers=4)),
        pools.change(bus, "etl", "bob", START, lambda entry: replace(entry, restarts=entry.restarts + 1)),
    )
    entry, _ = await pools.find(bus, "etl")
    assert (entry.workers, entry.restarts, entry.generation) == (4, 1, 3)


async def test_a_pool_that_is_not_there_is_said_so(bus: MemoryBus) -> None:
    with pytest.raises(NotThere, match="pool list"):
        await pools.find(bus, "nobody")


async def test_there_are_so_many_pools_and_no_more(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools.DOCUMENTS, "most", 1)
    await put(bus, plain("a"))
    with pytest.raises(Refused, match="limit"):
        await put(bus, plain("b"))


async def test_a_deleted_pool_can_be_made_again(bus: MemoryBus) -> None:
    await put(bus, plain("etl", 3))
    await pools.delete(bus, "etl")
    assert await pools.everything(bus) == {}
    assert await put(bus, plain("etl", 1)) == "created"


async def test_consumers_are_wanted_for_pools_of_both_lists_with_their_pauses(bus: MemoryBus) -> None:
    await put(bus, plain("etl"))
    await pools.change(bus, "etl", "ada", START, lambda entry: replace(entry, paused=Pause("ada", START)))
    assert await pools.consumers(bus, ("default", "etl"), START) == {"default": "", "etl": FOR_EVER}


def test_a_pause_ends_at_its_time_and_a_drain_does_not() -> None:
    entry = Entry("", 1, "ada", START, paused=Pause("ada", START, "lunch", START + 60))
    assert entry.paused_until(START + 59) == moment(START + 60)
    assert entry.pause_at(START + 61) is None
    draining = replace(entry, drain=Drain("bob", START, 5.0))
    assert draining.paused_until(START + 1000) == FOR_EVER
    assert draining.pause_at(START + 1000) == Pause("bob", START, "drain")
