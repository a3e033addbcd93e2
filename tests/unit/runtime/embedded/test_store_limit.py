"""How much an embedded broker may keep, when it is told to start anew, and when routers refuse new work."""

import asyncio
from pathlib import Path

import pytest

from services.router.capacity import MOST_MARGIN, Room, margin
from shared.bus.ports import Storage
from shared.runtime.embedded import store_limit
from shared.runtime.embedded.broker_watch import has_room, is_cramped, write_error
from shared.runtime.embedded.store_limit import LEAST_LIMIT, LEAST_RESERVE, MIB, MOST_RESERVE

GIB = 1024 * MIB
FULL = (
    b'{"status":"unavailable","error":"JetStream stream \'NOETL \\u003e NOETL_EVENTS_0\' write error: write '
    b'/data/jetstream/NOETL/streams/NOETL_EVENTS_0/msgs/5.blk: no space left on device"}'
)


@pytest.mark.parametrize(
    ("total", "free", "used", "reserve"),
    [
        (100 * GIB, 50 * GIB, 0, MOST_RESERVE),
        (10 * GIB, 5 * GIB, GIB, 512 * MIB),  # 5 %
        (GIB, 512 * MIB, 0, LEAST_RESERVE),
        (48 * MIB, 40 * MIB, 0, 10 * MIB),  # a quarter of what there is
    ],
)
def test_a_part_of_the_disk_is_left_to_others(total: int, free: int, used: int, reserve: int) -> None:
    room = store_limit.Room(total, free, used)
    assert room.reserve == reserve
    assert room.limit == free + used - reserve


def test_what_the_store_has_already_counts_and_a_full_disk_gives_a_limit_too() -> None:
    assert store_limit.Room(100 * GIB, 10 * GIB, 60 * GIB).limit == 69 * GIB
    assert store_limit.Room(GIB, 0, 0).limit == LEAST_LIMIT


def test_the_folder_is_measured_also_before_it_is_there(tmp_path: Path) -> None:
    assert store_limit.look(tmp_path / "not" / "there").used == 0
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    assert 90_000 < store_limit.look(tmp_path).used < 200_000
    assert store_limit.look(tmp_path).free > 0


def test_a_restart_is_worth_it_when_there_is_room_and_not_before() -> None:
    assert not has_room(store_limit.Room(10 * GIB, 10 * MIB, 9 * GIB))
    assert has_room(store_limit.Room(10 * GIB, 300 * MIB, 9 * GIB))
    assert is_cramped(store_limit.Room(10 * GIB, 5 * GIB, 2 * GIB), 2 * GIB)
    assert not is_cramped(store_limit.Room(10 * GIB, 5 * GIB, GIB), 2 * GIB)  # it has room in its limit
    assert not is_cramped(store_limit.Room(10 * GIB, 600 * MIB, 2 * GIB), 2 * GIB)  # a new limit would not be more


@pytest.mark.parametrize(
    ("body", "says"), [(FULL, "no space left on device"), (b'{"status":"ok"}', ""), (b"nonsense", "")]
)
async def test_the_servers_own_word_tells_that_it_does_not_write(body: bytes, says: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: application/json\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        found = await write_error(server.sockets[0].getsockname()[1])
    assert says in found
    assert bool(found) == bool(says)


async def test_a_server_that_is_away_is_not_one_that_does_not_write() -> None:
    assert await write_error(1) == ""


def test_routers_keep_a_margin_for_executions_that_run() -> None:
    assert margin(GIB) == GIB // 10
    assert margin(100 * GIB) == MOST_MARGIN
    room = Room()
    room.note(Storage(899 * MIB, 1000 * MIB))
    assert room.why_not() == ""
    room.note(Storage(901 * MIB, 1000 * MIB))
    assert "901 of 1000 MiB" in room.why_not()
    room.note(Storage(100 * MIB, 1000 * MIB))
    assert room.why_not() == ""
    room.note(Storage(10**12, 0))  # no limit is known
    assert room.why_not() == ""
