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
from shared.runtime.stores.pools import Drain, Entry, NotYours, Pause
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


def owned(owner: str, slots: int = 1) -> str:
    head = f"{{name: etl, owner: {owner}}}" if owner else "{name: etl}"
    return plain("etl", slots=slots).replace("{name: etl}", head)


async def take(bus: MemoryBus, source: str) -> str:
    return (await pools.apply(bus, of(source), source, "ada", START, take_over=True))[0]


async def test_what_belongs_to_a_release_is_changed_by_it_or_taken_over(bus: MemoryBus) -> None:
    assert await put(bus, owned("helm/noetl")) == "created"
    assert await put(bus, owned("helm/noetl", 2)) == "changed"
    for other in ("", "helm/other"):
        with pytest.raises(NotYours, match="pool etl belongs to helm/noetl: change it there, or take it over"):
            await put(bus, owned(other, 3))
    await pools.change(bus, "etl", "bob", START, lambda entry: replace(entry, workers=5))
    assert await take(bus, owned("", 4)) == "changed"
    entry, _ = await pools.find(bus, "etl")
    assert (pools.owner_of(entry), entry.taken_from, entry.workers) == ("", "helm/noetl", 5)


async def test_what_was_taken_over_stays_so_until_it_is_given_back(bus: MemoryBus) -> None:
    await put(bus, owned("helm/noetl"))
    await take(bus, owned("", 2))
    assert await put(bus, owned("", 3)) == "changed"
    with pytest.raises(NotYours, match="pool etl was taken over from helm/noetl: generation 3 by ada"):
        await put(bus, owned("helm/noetl"))
    assert await take(bus, owned("helm/noetl")) == "changed"
    assert (await pools.find(bus, "etl"))[0].taken_from == ""
    assert await put(bus, owned("helm/noetl", 5)) == "changed"


async def test_a_release_may_claim_what_is_nobodys(bus: MemoryBus) -> None:
    await put(bus, owned(""))
    assert await put(bus, owned("helm/noetl")) == "changed"


async def test_a_pool_from_before_keeps_its_name(bus: MemoryBus) -> None:
    old = Entry(plain("GPU_1", 2), 1, "ada", START, 2)
    await pools.DOCUMENTS.put(bus, "GPU_1", old, 0)
    assert pools.parse((await pools.everything(bus))["GPU_1"]).name == "GPU_1"
    assert (await pools.change(bus, "GPU_1", "bob", START, lambda entry: replace(entry, workers=5))).workers == 5
