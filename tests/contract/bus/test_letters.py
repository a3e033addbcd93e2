"""Dead letters: the latest ones with their times, whatever was dropped before."""

import time

from shared.bus import letters
from shared.bus.ports import Bus
from shared.events import subjects


async def buried(bus: Bus, *origins: str) -> list[int]:
    return [
        await bus.append(subjects.dead(origin), f"letter {at}".encode(), headers={"Noetl-Place": f"S/{at}"})
        for at, origin in enumerate(origins)
    ]


async def test_a_letter_has_its_origin_time_headers_and_bytes(bus: Bus) -> None:
    before = time.time_ns()
    (seq,) = await buried(bus, "requests")
    found = await letters.one(bus, seq)
    assert found is not None
    assert (found.seq, found.origin, found.data) == (seq, "requests", b"letter 0")
    assert found.headers == {"Noetl-Place": "S/0"}
    assert abs(found.at - before) < 60e9


async def test_the_latest_are_listed_oldest_first_and_by_origin(bus: Bus) -> None:
    seqs = await buried(bus, "requests", "router", "requests", "triggers")
    assert [each.seq for each in await letters.latest(bus, 2)] == seqs[-2:]
    assert [each.seq for each in await letters.latest(bus, 100)] == seqs
    assert [each.seq for each in await letters.latest(bus, 1, "requests")] == [seqs[2]]


async def test_what_was_dropped_leaves_no_hole_in_the_list(bus: Bus) -> None:
    seqs = await buried(bus, *["requests"] * 12)
    for seq in seqs[2:11]:
        await letters.drop(bus, seq)
    assert await letters.one(bus, seqs[5]) is None
    assert [each.seq for each in await letters.latest(bus, 2)] == [seqs[1], seqs[11]]


async def test_none_is_an_empty_list(bus: Bus) -> None:
    assert await letters.latest(bus, 10) == []
    assert await letters.one(bus, 1) is None
