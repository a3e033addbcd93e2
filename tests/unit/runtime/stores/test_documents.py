"""Documents in KV, whatever their kind: compared and set, bounded, and read with care."""

import asyncio
import re

import pytest
from msgspec import Struct
from structlog.testing import capture_logs

from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.errors import Conflict, Corrupt, Refused
from shared.runtime.stores.documents import MAX_ENTRY_BYTES, TRIES, Documents, NotThere
from tests.support.clock import START
from tests.support.memory_bus import bus_in_turns

__all__ = ["bus_in_turns"]

BUCKET = topology.SCHEDULES


class Lamp(Struct, frozen=True):
    watts: int


class Kept(Struct, frozen=True):
    lit: bool = False


LAMPS = Documents(BUCKET, "lamp", Lamp, most=3, state="lamp_state", name=re.compile("[a-z]+"))


async def brighter(bus: MemoryBus, by: int) -> str:
    return (await LAMPS.change(bus, "desk", lambda lamp: Lamp(lamp.watts + by), Lamp(by)))[0]


async def test_a_change_says_what_it_did(bus: MemoryBus) -> None:
    assert [await brighter(bus, by) for by in (1, 2, 0)] == ["created", "changed", "unchanged"]
    assert (await LAMPS.find(bus, "desk"))[0] == Lamp(3)


async def test_of_changes_at_the_same_time_none_is_lost(bus: MemoryBus) -> None:
    await brighter(bus, 1)
    await asyncio.gather(*(brighter(bus, 1) for _ in range(5)))
    assert await LAMPS.everything(bus) == {"desk": Lamp(6)}


async def test_whoever_loses_every_time_is_told(bus: MemoryBus) -> None:
    await brighter(bus, 1)
    tries = 0

    def late(_: Lamp) -> Lamp:
        nonlocal tries
        tries += 1
        subject = f"$KV.{BUCKET}.lamp.desk"
        bus.broker.stream_taking(subject).append(subject, b'{"watts":%d}' % tries, None, None, START)
        return Lamp(100)

    with pytest.raises(Conflict, match="lamp desk is being changed by someone else"):
        await LAMPS.change(bus, "desk", late)
    assert (tries, (await LAMPS.find(bus, "desk"))[0]) == (TRIES, Lamp(TRIES))


async def test_a_conflict_of_ones_own_is_not_taken_for_anothers(bus: MemoryBus) -> None:
    await brighter(bus, 1)

    def refuses(_: Lamp) -> Lamp:
        raise Conflict("not on Sundays")

    with pytest.raises(Conflict, match="not on Sundays"):
        await LAMPS.change(bus, "desk", refuses)


async def test_an_entry_is_put_over_the_one_that_was_read_alone(bus: MemoryBus) -> None:
    await LAMPS.put(bus, "desk", Lamp(1), 0)
    _, revision = await LAMPS.find(bus, "desk")
    await LAMPS.put(bus, "desk", Lamp(2), revision)
    for stale in (0, revision):
        with pytest.raises(Conflict):
            await LAMPS.put(bus, "desk", Lamp(3), stale)


async def test_what_is_not_there_is_not_changed(bus: MemoryBus) -> None:
    for name in ("desk", ""):
        with pytest.raises(NotThere, match=re.escape(f"no lamp {name!r} (`noetlctl lamp list` shows what is there)")):
            await LAMPS.change(bus, name, lambda lamp: lamp)


async def test_there_are_only_so_many(bus: MemoryBus) -> None:
    for name in ("a", "b", "c"):
        await LAMPS.put(bus, name, Lamp(1), 0)
    with pytest.raises(Refused, match="there are 3 lamps, and that is the limit"):
        await LAMPS.put(bus, "d", Lamp(1), 0)
    assert (await LAMPS.change(bus, "a", lambda _: Lamp(2)))[0] == "changed"


async def test_one_that_cannot_be_read_is_told_once_and_passed_over(bus: MemoryBus) -> None:
    await LAMPS.put(bus, "desk", Lamp(1), 0)
    await bus.kv_put(BUCKET, "lamp.broken", b"{")
    await bus.kv_put(BUCKET, "lamp.NOT", b'{"watts":1}')
    await bus.kv_put(BUCKET, "other.one", b'{"watts":1}')
    with capture_logs() as logs:
        for _ in range(2):
            assert await LAMPS.everything(bus) == {"desk": Lamp(1)}
    assert [(line["event"], line["name"]) for line in logs] == [("document.unreadable", "broken")]
    assert LAMPS.names(await bus.kv_all(BUCKET)) == ["broken", "desk"]


def test_an_entry_has_only_so_many_bytes() -> None:
    with pytest.raises(Corrupt, match=f"Lamp in {BUCKET} of .* bytes; the limit is {MAX_ENTRY_BYTES}"):
        LAMPS.decode(b" " * MAX_ENTRY_BYTES + b'{"watts":1}')


async def test_what_is_kept_beside_a_document_goes_with_it(bus: MemoryBus) -> None:
    for name in ("desk", "hall"):
        await LAMPS.put(bus, name, Lamp(1), 0)
        await bus.kv_put(BUCKET, LAMPS.state_key(name), b'{"lit":true}')
    await bus.kv_delete(BUCKET, LAMPS.key("hall"))
    bucket = await bus.kv_all(BUCKET)
    assert LAMPS.without_document(bucket) == ["hall"]
    assert LAMPS.decode_as(Kept, bucket[LAMPS.state_key("desk")]) == Kept(True)
    await LAMPS.delete(bus, "desk")
    assert list(await bus.kv_all(BUCKET)) == [LAMPS.state_key("hall")]


def test_an_entry_is_known_by_where_it_is_written() -> None:
    assert LAMPS.subject() == f"$KV.{BUCKET}.lamp.*"
    assert LAMPS.name_of(f"$KV.{BUCKET}.lamp.desk") == "desk"
    assert LAMPS.name_of(f"$KV.{BUCKET}.lamp_state.desk") is None


@pytest.mark.parametrize("name", ["", "*", ">", "a b", ".", "a..b", "\x1b[31m"])
async def test_what_cannot_be_a_name_is_not_there(bus: MemoryBus, name: str) -> None:
    """In a key `*` would be every document."""
    await brighter(bus, 1)
    with pytest.raises(NotThere, match="`noetlctl lamp list`"):
        await LAMPS.find(bus, name)
    with pytest.raises(NotThere, match="`noetlctl lamp list`"):
        await LAMPS.change(bus, name, lambda lamp: lamp)
