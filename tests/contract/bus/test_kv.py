"""Buckets: compare and set, deletion, age; and core messages."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus.kv import changes_of, decode_key, encode_key, is_deleted, subject_of
from shared.bus.ports import Bus
from shared.bus.topology import CTX, WORKERS
from shared.errors import Conflict, Refused
from tests.support.servers.nats import TTL_S
from tests.support.waiting import until


async def test_a_value_is_read_back_with_its_revision(bus: Bus) -> None:
    assert await bus.kv_get(CTX, "e1") is None
    assert not await bus.kv_is_named(CTX, "e1")
    revision = await bus.kv_put(CTX, "e1", b"1")
    entry = await bus.kv_get(CTX, "e1")
    assert entry is not None
    assert (entry.value, entry.revision) == (b"1", revision)


async def test_expected_zero_creates_once(bus: Bus) -> None:
    await bus.kv_put(CTX, "e1", b"1", expected=0)
    with pytest.raises(Conflict):
        await bus.kv_put(CTX, "e1", b"2", expected=0)


async def test_compare_and_set_needs_the_last_revision(bus: Bus) -> None:
    first = await bus.kv_put(CTX, "e1", b"1")
    await bus.kv_put(CTX, "other", b"x")
    second = await bus.kv_put(CTX, "e1", b"2", expected=first)
    with pytest.raises(Conflict):
        await bus.kv_put(CTX, "e1", b"3", expected=first)
    assert await bus.kv_put(CTX, "e1", b"3", expected=second) > second


async def test_a_deleted_key_is_gone_and_can_be_created_again(bus: Bus) -> None:
    await bus.kv_put(CTX, "e1", b"1")
    await bus.kv_delete(CTX, "e1")
    assert await bus.kv_get(CTX, "e1") is None
    assert await bus.kv_all(CTX) == {}
    await bus.kv_put(CTX, "e1", b"2", expected=0)
    assert await bus.kv_all(CTX) == {"e1": b"2"}


async def test_a_purged_key_is_as_if_it_had_never_been(bus: Bus) -> None:
    await bus.kv_put(CTX, "e1", b"1")
    await bus.kv_put(CTX, "e2", b"2")
    await bus.kv_delete(CTX, "e1")
    assert await bus.kv_is_named(CTX, "e1")
    await bus.kv_purge(CTX, "e1")
    await bus.kv_purge(CTX, "never")
    assert not await bus.kv_is_named(CTX, "e1")
    assert await bus.kv_all(CTX) == {"e2": b"2"}
    await bus.kv_put(CTX, "e1", b"3", expected=0)
    assert await bus.kv_all(CTX) == {"e1": b"3", "e2": b"2"}


async def test_all_gives_the_last_value_of_every_key(bus: Bus) -> None:
    for i in range(5):
        await bus.kv_put(CTX, f"run.k{i}", b"old")
        await bus.kv_put(CTX, f"run.k{i}", str(i).encode())
    assert await bus.kv_all(CTX) == {f"run.k{i}": str(i).encode() for i in range(5)}


async def test_changes_of_a_bucket_are_heard_as_they_are_made(bus: Bus) -> None:
    inbox = await bus.subscribe(changes_of(WORKERS))
    await bus.kv_put(CTX, "other", b"0")
    await bus.kv_put(WORKERS, "default.w1", b"1")
    await bus.kv_delete(WORKERS, "default.w1")
    async with asyncio.timeout(30):
        put, gone = await inbox.message(), await inbox.message()
    assert (put.subject, put.data) == (subject_of(WORKERS, "default.w1"), b"1")
    assert is_deleted(gone.headers)
    await inbox.close()


async def test_a_beat_that_stops_disappears(bus: Bus) -> None:
    await bus.kv_put(WORKERS, "default.w1", b"1")
    assert await bus.kv_all(WORKERS) == {"default.w1": b"1"}
    await until(lambda: bus.kv_all(WORKERS), "nobody is there", 4 * TTL_S, so=lambda left: not left, every_s=0.1)
    assert await bus.kv_get(WORKERS, "default.w1") is None
    await bus.kv_put(WORKERS, "default.w1", b"2", expected=0)


async def test_a_key_outside_the_alphabet_is_refused(bus: Bus) -> None:
    for key in ("a b", "a.*", ">", "", ".a", "ü"):
        with pytest.raises(Refused):
            await bus.kv_put(CTX, key, b"")


@given(st.text())
def test_any_text_makes_a_key_and_comes_back(text: str) -> None:
    key = encode_key(text)
    assert subject_of("b", key)
    assert "." not in key
    assert decode_key(key) == text


def test_different_texts_make_different_keys() -> None:
    texts = ["", "=", "==", "=3D", "a.b", "a=2Eb", "a/b", "%", "%25"]
    assert len({encode_key(text) for text in texts}) == len(texts)


async def test_a_core_message_reaches_every_subscriber_once(bus: Bus) -> None:
    inboxes = [await bus.subscribe("noetl.members.*") for _ in range(2)]
    await asyncio.sleep(0.05)
    await bus.publish("noetl.members.router", b"here")
    for inbox in inboxes:
        assert await asyncio.wait_for(inbox.next(), 2) == b"here"
    await bus.publish("noetl.members.worker", b"me too")
    for inbox in inboxes:
        message = await asyncio.wait_for(inbox.message(), 2)
        assert (message.subject, message.data, message.seq) == ("noetl.members.worker", b"me too", 0)
        await inbox.close()


async def test_of_a_group_one_gets_each_core_message(bus: Bus) -> None:
    group = [await bus.subscribe("noetl.api.*", group="router") for _ in range(3)]
    alone = await bus.subscribe("noetl.api.*")
    await asyncio.sleep(0.05)
    for n in range(6):
        await bus.publish("noetl.api.execute", b"%d" % n)
    everything = [await asyncio.wait_for(alone.next(), 2) for _ in range(6)]
    found: list[bytes] = []
    for inbox in group:
        with suppress(TimeoutError):
            while True:
                found.append(await asyncio.wait_for(inbox.next(), 0.2))
    assert sorted(found) == everything
    for inbox in (*group, alone):
        await inbox.close()


async def test_a_name_is_known_without_its_value(bus: Bus) -> None:
    await bus.kv_put(CTX, "e1", b"1")
    assert [await bus.kv_is_named(CTX, key) for key in ("e1", "e", "e11", "e1.x")] == [True, False, False, False]
