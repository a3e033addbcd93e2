"""The log: appended under an expected sequence, followed in order and without a gap, read back."""

import asyncio

import pytest

from shared.bus.direct_reader import FEW
from shared.bus.ports import Bus
from shared.bus.topology import RESULTS, events_stream
from shared.errors import Conflict, Corrupt, Duplicate, Refused, Unavailable
from tests.support.following import lazy, take

__all__ = ["lazy"]

STREAM = events_stream(0)
ROUTER = "noetl.events.0.*.router"


def subject(execution: str, writer: str = "router") -> str:
    return f"noetl.events.0.{execution}.{writer}"


async def test_append_gives_the_sequence_in_the_stream(bus: Bus) -> None:
    assert await bus.append(subject("a"), b"1") == 1
    assert await bus.append(subject("b"), b"2") == 2
    assert await bus.last_seq(STREAM) == 2


async def test_expected_zero_holds_for_the_first_record_only(bus: Bus) -> None:
    await bus.append(subject("a"), b"1", expected=0)
    with pytest.raises(Conflict):
        await bus.append(subject("a"), b"again", expected=0)
    assert [m.data for m in await bus.read(STREAM, [subject("a")])] == [b"1"]


async def test_expected_sequence_is_the_subjects_own(bus: Bus) -> None:
    first = await bus.append(subject("a"), b"1", expected=0)
    await bus.append(subject("b"), b"other", expected=0)
    assert await bus.append(subject("a"), b"2", expected=first) == 3


async def test_expected_sequence_ahead_of_the_subject_is_a_conflict(bus: Bus) -> None:
    with pytest.raises(Conflict):
        await bus.append(subject("a"), b"1", expected=7)


async def test_one_of_two_writers_with_the_same_expectation_wins(bus: Bus) -> None:
    futures = [await bus.send(subject("a"), data, expected=0) for data in (b"1", b"2")]
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert answers[0] == 1
    assert isinstance(answers[1], Conflict)


async def test_sends_are_stored_in_the_order_of_the_calls(bus: Bus) -> None:
    futures = [await bus.send(subject("a"), str(i).encode()) for i in range(2000)]
    assert await asyncio.gather(*futures) == list(range(1, 2001))
    assert [int(m.data) for m in await bus.read(STREAM, [ROUTER])] == list(range(2000))


async def test_a_write_once_subject_takes_one_message(bus: Bus) -> None:
    await bus.append("noetl.results.a.sha.0", b"chunk")
    with pytest.raises(Duplicate):
        await bus.append("noetl.results.a.sha.0", b"another")
    assert [m.data for m in await bus.read(RESULTS, ["noetl.results.a.>"])] == [b"chunk"]


async def test_a_message_id_is_taken_once_in_its_window(bus: Bus) -> None:
    headers = {"Nats-Msg-Id": "order-7"}
    first = await bus.append("noetl.requests.execute", b"1", headers=headers)
    assert await bus.append("noetl.requests.execute", b"2", headers=headers) == first
    assert await bus.last_seq("NOETL_REQUESTS") == 1


async def test_a_subject_without_a_stream_is_unavailable(bus: Bus) -> None:
    with pytest.raises(Unavailable):
        await bus.append("nobody.listens", b"")


async def test_headers_come_back_without_those_of_the_broker(bus: Bus, lazy: bool) -> None:
    await bus.append(subject("a"), b"1", expected=0, headers={"Noetl-Reply-To": "_INBOX.x", "Trace": "a b"})
    expected = {"Noetl-Reply-To": "_INBOX.x", "Trace": "a b"}
    read = (await bus.read(STREAM, [ROUTER]))[0]
    follower = bus.follow(STREAM, [ROUTER], 0, lazy=lazy)
    followed = (await follower.batch())[0]
    await follower.close()
    assert read.headers == expected
    assert expected.items() <= (followed.headers or {}).items()


async def test_follow_gives_what_is_there_and_then_what_comes(bus: Bus, lazy: bool) -> None:
    for i in range(3):
        await bus.append(subject("a"), str(i).encode())
    follower = bus.follow(STREAM, [ROUTER], 0, lazy=lazy)
    assert await take(follower, 3) == [1, 2, 3]
    waiting = asyncio.create_task(take(follower, 1))
    await asyncio.sleep(0.05)
    await bus.append(subject("b"), b"late")
    assert await waiting == [4]
    await follower.close()


async def test_follow_starts_after_the_cursor(bus: Bus, lazy: bool) -> None:
    for i in range(5):
        await bus.append(subject("a"), str(i).encode())
    follower = bus.follow(STREAM, [ROUTER], 3, lazy=lazy)
    assert await take(follower, 2) == [4, 5]
    await follower.close()


async def test_follow_passes_only_its_filters(bus: Bus, lazy: bool) -> None:
    for writer in ("router", "scheduler", "worker", "iteration", "worker"):
        await bus.append(subject("a", writer), b"")
    follower = bus.follow(STREAM, ["noetl.events.0.*.scheduler", "noetl.events.0.*.worker"], 0, lazy=lazy)
    assert await take(follower, 3) == [2, 3, 5]
    await follower.close()


async def test_follow_is_in_order_and_gapless_over_many_batches(bus: Bus, lazy: bool) -> None:
    total = 6000
    follower = bus.follow(STREAM, [ROUTER], 0, lazy=lazy)
    reading = asyncio.create_task(take(follower, total))
    futures = [await bus.send(subject(f"e{i}"), b"x" * 200) for i in range(total)]
    await asyncio.gather(*futures)
    assert await reading == list(range(1, total + 1))
    await follower.close()


async def test_a_slow_follower_loses_nothing(bus: Bus, lazy: bool) -> None:
    total = 3000
    futures = [await bus.send(subject(f"e{i}"), b"x") for i in range(total)]
    await asyncio.gather(*futures)
    follower = bus.follow(STREAM, [ROUTER], 0, lazy=lazy)
    found: list[int] = []
    while len(found) < total:
        batch = await follower.batch()
        assert len(batch) <= 1024
        found += [m.seq for m in batch]
        await asyncio.sleep(0.02)
    assert found == list(range(1, total + 1))
    await follower.close()


async def test_a_cursor_beyond_the_end_of_the_stream_is_corrupt(bus: Bus, lazy: bool) -> None:
    await bus.append(subject("a"), b"1")
    follower = bus.follow(STREAM, [ROUTER], 2, lazy=lazy)
    with pytest.raises(Corrupt, match="ends before the cursor"):
        await follower.batch()
    await follower.close()


async def test_a_closed_follower_does_not_hang(bus: Bus, lazy: bool) -> None:
    follower = bus.follow(STREAM, [ROUTER], 0, lazy=lazy)
    waiting = asyncio.create_task(follower.batch())
    await asyncio.sleep(0.05)
    await follower.close()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 2)


async def test_read_gives_one_execution_after_a_sequence(bus: Bus) -> None:
    for i in range(4):
        await bus.append(subject("a", "router" if i % 2 else "worker"), str(i).encode())
        await bus.append(subject("b"), b"other")
    found = await bus.read(STREAM, ["noetl.events.0.a.*"], after=1)
    assert [(m.seq, m.data) for m in found] == [(3, b"1"), (5, b"2"), (7, b"3")]
    assert await bus.read(STREAM, ["noetl.events.0.a.*"], after=7) == []


async def test_read_of_an_empty_stream_is_empty(bus: Bus) -> None:
    assert await bus.read(STREAM, [ROUTER]) == []
    assert await bus.last_seq(STREAM) == 0


async def test_read_merges_filters_by_sequence(bus: Bus) -> None:
    for writer in ("worker", "router", "scheduler", "router", "worker"):
        await bus.append(subject("a", writer), b"")
    found = await bus.read(STREAM, [subject("a"), subject("a", "worker")])
    assert [m.seq for m in found] == [1, 2, 4, 5]


@pytest.mark.parametrize("count", [FEW - 1, FEW, FEW + 1, 3 * FEW])
async def test_read_of_several_filters_is_the_same_however_much_an_execution_has_to_say(bus: Bus, count: int) -> None:
    writers = [("worker", "router", "iteration")[i % 3] for i in range(count)]
    for execution in ("a", "b"):
        await asyncio.gather(*[await bus.send(subject(execution, writer), b"") for writer in writers])
    wanted = [i + 1 for i, writer in enumerate(writers) if writer != "iteration"]
    assert [m.seq for m in await bus.read(STREAM, [subject("a"), subject("a", "worker")])] == wanted
    after = [seq for seq in wanted if seq > 5]
    assert [m.seq for m in await bus.read(STREAM, [subject("a"), subject("a", "worker")], 5)] == after


async def test_read_goes_on_over_several_batches(bus: Bus) -> None:
    futures = [await bus.send(subject(f"e{i}"), b"x" * 300) for i in range(1500)]
    await asyncio.gather(*futures)
    assert [m.seq for m in await bus.read(STREAM, [ROUTER])] == list(range(1, 1501))


async def test_get_gives_the_last_message_of_a_subject(bus: Bus) -> None:
    assert await bus.get(STREAM, subject("a")) is None
    await bus.append(subject("a"), b"1")
    await bus.append(subject("a"), b"2")
    found = await bus.get(STREAM, subject("a"))
    assert found is not None
    assert (found.data, found.seq, found.subject) == (b"2", 2, subject("a"))


async def test_a_missing_stream_is_unavailable(bus: Bus) -> None:
    for call in (bus.created("NONE"), bus.last_seq("NONE"), bus.read("NONE", [">"])):
        with pytest.raises(Unavailable):
            await call


@pytest.mark.parametrize("bad", ["noetl.events.0.a b.router", "noetl.events.0.a\r\nPUB x 0.router", "", "a..b"])
async def test_a_subject_that_would_break_the_protocol_is_refused(bus: Bus, bad: str) -> None:
    with pytest.raises(Refused):
        await bus.append(bad, b"")


async def test_what_the_store_holds_is_known_and_that_it_has_no_limit(bus: Bus) -> None:
    found = await bus.storage()
    assert found.used >= 0
    assert found.limit == 0
