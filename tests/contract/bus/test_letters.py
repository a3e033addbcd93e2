"""Dead letters: one of each place, small whatever the message holds, the latest ones with their times."""

import time

import pytest

from shared.bus import dead_letters, topology
from shared.bus.ports import Bus
from shared.events import subjects
from shared.events.bounds import MAX_LETTER_BYTES
from shared.events.letter import digest


async def buried(bus: Bus, *origins: str) -> list[int]:
    for at, origin in enumerate(origins):
        assert await dead_letters.bury(bus, origin, f"S/{at}", "why", f"letter {at}".encode())
    return [each.seq for each in await dead_letters.latest(bus, 100)]


async def test_a_letter_has_its_origin_time_place_and_reason(bus: Bus) -> None:
    before = time.time_ns()
    (seq,) = await buried(bus, "requests")
    found = await dead_letters.one(bus, seq)
    assert found is not None
    assert found.note is not None
    assert (found.seq, found.origin, found.note.excerpt) == (seq, "requests", "letter 0")
    assert (found.note.place, found.note.reason, found.note.size) == ("S/0", "why", 8)
    assert abs(found.at - before) < 60e9


async def test_the_same_place_is_written_once(bus: Bus) -> None:
    assert await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "first", b"a")
    assert not await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "again", b"a")
    assert await dead_letters.bury(bus, "scheduler", "NOETL_EVENTS_0/7", "another who could not use it", b"a")
    assert await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "another trigger's", b"a", name="orders")
    assert len(await dead_letters.latest(bus, 10)) == 3


async def test_nothing_a_message_holds_keeps_it_from_being_buried(bus: Bus) -> None:
    for at, data in enumerate((b"\x00" * 900_000, b"\xff" * 900_000, b'"\\' * 450_000, "\u2028".encode() * 300_000)):
        headers = {"A\r\nB": "\x1b]52;c;x\x07" * 10_000, **{f"h{i}": "\r\n" * 500 for i in range(100)}}
        reason = "\ud800 \x1b[2J" + "é" * 100_000
        assert await dead_letters.bury(bus, "requests", f"S/{at}", reason, data, subject="s" * 5000, headers=headers)
        found = (await dead_letters.latest(bus, 1))[0]
        note = found.note
        assert note is not None
        assert len(found.data) <= MAX_LETTER_BYTES
        assert (note.size, note.digest, note.whole) == (len(data), digest(data), False)
        shown = "".join((note.excerpt, note.reason, *note.headers, *note.headers.values()))
        assert shown.isprintable()


async def test_the_whole_message_is_found_while_it_stands_where_the_letter_says(bus: Bus) -> None:
    data = b'{"path": "' + b"x" * 10_000 + b'"}'
    seq = await bus.append(subjects.EXECUTE, data, headers={"Nats-Msg-Id": "one"})
    place = dead_letters.at_seq("NOETL_REQUESTS", seq)
    await dead_letters.bury(bus, "requests", place, "why", data, subject=subjects.EXECUTE)
    note = (await dead_letters.latest(bus, 1))[0].note
    assert note is not None
    found = await dead_letters.original(bus, note)
    assert found is not None
    assert (found.subject, found.data, found.headers) == (subjects.EXECUTE, data, {"Nats-Msg-Id": "one"})
    await bus.append(subjects.EXECUTE, b"another")
    for place in (dead_letters.at_seq("NOETL_REQUESTS", seq + 1), "NOETL_REQUESTS/99", "NOWHERE/1", "no place"):
        await dead_letters.bury(bus, "requests", place, "why", data)
        other = (await dead_letters.latest(bus, 1))[0].note
        assert other is not None
        assert await dead_letters.original(bus, other) is None


async def test_the_latest_are_listed_oldest_first_and_by_origin(bus: Bus) -> None:
    seqs = await buried(bus, "requests", "router", "requests", "triggers")
    assert [each.seq for each in await dead_letters.latest(bus, 2)] == seqs[-2:]
    assert [each.seq for each in await dead_letters.latest(bus, 1, "requests")] == [seqs[2]]


async def test_what_was_dropped_leaves_no_hole_in_the_list(bus: Bus) -> None:
    seqs = await buried(bus, *["requests"] * 12)
    for seq in seqs[2:11]:
        await dead_letters.drop(bus, seq)
    assert await dead_letters.one(bus, seqs[5]) is None
    assert [each.seq for each in await dead_letters.latest(bus, 2)] == [seqs[1], seqs[11]]


async def test_none_is_an_empty_list(bus: Bus) -> None:
    assert await dead_letters.latest(bus, 10) == []
    assert await dead_letters.one(bus, 1) is None


async def test_nobody_pushes_out_the_letters_that_others_cause(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "LETTERS_OF_ONE", 5)
    for owner, count in (("", 2), ("gpu", 3), ("evil", 20), ("a.b *", 20)):
        for at in range(count):
            assert await dead_letters.bury(bus, "records", f"S{owner}/{at}", "why", b"x", owner=owner)
    await dead_letters.bury(bus, "requests", "R/1", "why", b"x", owner="evil")
    found = [each.note.place for each in await dead_letters.latest(bus, 1000) if each.note is not None]
    assert found == [
        "S/0", "S/1", *(f"Sgpu/{at}" for at in range(3)), *(f"Sevil/{at}" for at in range(15, 20)),
        *(f"Sa.b */{at}" for at in range(15, 20)), "R/1"]
    assert not await dead_letters.bury(bus, "records", "Sevil/19", "again", b"x", owner="evil")
