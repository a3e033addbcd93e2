"""A stream as a file and back, and requests that are neither lost nor carried out twice."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.bus.topology import REQUESTS, events_stream
from shared.errors import NoetlError, Refused, Unavailable
from shared.events import subjects
from shared.events.request import derive_id
from shared.runtime.backup import archive, backup, restore, snapshot
from shared.runtime.embedded.nats_server import NatsServer
from tests.support.servers.nats import clear, made_anew
from tests.support.waiting import until


@pytest.fixture
async def source(admin: JetStreamBus) -> JetStreamBus:
    await clear(admin)
    await made_anew(admin, topology.wanted())
    return admin


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[JetStreamBus]:
    server = NatsServer(tmp_path / "target").start()
    bus = await connect(server.url_for("admin"))
    try:
        yield bus
    finally:
        await bus.close()
        server.stop()


def quiet(_: str) -> None:
    """A backup tells of every stream."""


async def test_sequences_headers_gaps_and_times_come_back(source: JetStreamBus, target: JetStreamBus) -> None:
    name = topology.RESULTS
    for number in range(300):
        await source.append(subjects.result("x", "sum", number), os.urandom(1000), headers={"H": str(number)})
    assert await source.delete(name, 8)
    parts: list[bytes] = []
    saved = await snapshot.save(source, name, parts.append)
    assert len(parts) > 1
    state = await snapshot.restore(target, name, saved, parts)
    assert {**state, "consumer_count": 0} == {**saved.state, "consumer_count": 0}
    assert await target.read(name, [">"]) == await source.read(name, [">"])
    with pytest.raises(Refused, match="already in use"):
        await snapshot.restore(target, name, saved, parts)


async def test_a_broken_file_is_refused_by_the_broker_and_leaves_nothing(
    source: JetStreamBus, target: JetStreamBus
) -> None:
    await source.append(subjects.event(0, "x", "router"), b"decided")
    parts: list[bytes] = []
    saved = await snapshot.save(source, events_stream(0), parts.append)
    broken = [bytes([*parts[0][:60], parts[0][60] ^ 1, *parts[0][61:]])]
    with pytest.raises(NoetlError, match="restore failed"):
        await snapshot.restore(target, events_stream(0), saved, broken)
    with pytest.raises(Unavailable, match="not found"):
        await target.last_seq(events_stream(0))


async def test_a_backup_made_while_everyone_writes_holds_what_was_there_before(
    source: JetStreamBus, target: JetStreamBus, tmp_path: Path
) -> None:
    stream = events_stream(0)
    for number in range(500):
        await source.append(subjects.event(0, f"x{number}", "router"), b"r" * 500)
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            await source.append(subjects.event(0, f"y{number}", "router"), b"r" * 500)
            number += 1

    writer = asyncio.create_task(write())
    manifest = await backup.save(source, tmp_path / "b", 4, secrets=True, say=quiet)
    stop.set()
    await writer
    await restore.take_back(target, tmp_path / "b", manifest, replicas=1, say=quiet)
    found, there = await target.read(stream, [">"]), await source.read(stream, [">"])
    assert len(found) >= 500
    assert found == there[: len(found)]


async def test_requests_come_again_unless_the_log_has_what_they_started(
    source: JetStreamBus, target: JetStreamBus, tmp_path: Path
) -> None:
    epoch = await source.created(REQUESTS)
    execute = b'{"path": "a"}'
    for key in ("pool.gpu", "status.gpu", "leader"):
        await source.kv_put(topology.POOLS, key, b"{}")
    for subject, data in ((subjects.EXECUTE, execute),) * 3 + ((subjects.SIGNAL, b"{}"),):
        await source.append(subject, data)
    consumer = await source.consume(REQUESTS, "router", 4)
    (taken,) = await consumer.batch(1)
    await taken.ack()
    await consumer.close()
    started = derive_id("seq", epoch, 2)  # its request was not acknowledged yet
    partition = subjects.partition_of(started, 4)
    await source.append(subjects.event(partition, started, "router"), b"begun")

    await until(lambda: source.requests.api(f"CONSUMER.INFO.{REQUESTS}.router"), "the first is acknowledged", 10,
                so=lambda info: info["ack_floor"]["stream_seq"] == 1)
    manifest = await backup.save(source, tmp_path / "b", 4, secrets=False, say=quiet)
    archive.check(tmp_path / "b", archive.read(tmp_path / "b"))
    await restore.take_back(target, tmp_path / "b", manifest, replicas=1, say=quiet)
    await ensure(target, topology.wanted())
    assert [message.seq for message in await target.read(REQUESTS, [">"])] == [3, 4]
    assert await target.append(subjects.EXECUTE, execute) == 5
    assert set(await target.kv_all(topology.POOLS)) == {"pool.gpu"}  # who was there is not here
    consumer = await target.consume(REQUESTS, "router", 4)
    assert [delivery.seq for delivery in await consumer.batch(4)] == [3, 4, 5]
    await consumer.close()


async def test_a_broker_that_is_not_empty_is_left_alone(
    source: JetStreamBus, target: JetStreamBus, tmp_path: Path
) -> None:
    manifest = await backup.save(source, tmp_path / "b", 4, secrets=False, say=quiet)
    await ensure(target, topology.wanted())
    await target.kv_put(topology.CURSORS, "router.0", b"{}")
    with pytest.raises(Refused, match="KV_noetl_cursors has messages"):
        await restore.take_back(target, tmp_path / "b", manifest, replicas=1, say=quiet)


async def test_a_stream_that_is_missing_stops_the_backup_without_a_manifest(
    source: JetStreamBus, tmp_path: Path
) -> None:
    await source.requests.api(f"STREAM.DELETE.{topology.DEAD}")
    with pytest.raises(Unavailable, match="the backup stops at NOETL_DLQ"):
        await backup.save(source, tmp_path / "b", 4, secrets=False, say=quiet)
    assert not (tmp_path / "b" / archive.MANIFEST).exists()
