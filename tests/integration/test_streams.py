"""The broker is made to look like the topology, and every promise holds over a killed server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from services.cli.stack.broker_files import limited
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.kv import stream_of
from shared.bus.streams import Drift, ensure, queue_only
from shared.bus.topology import COMMANDS, events_stream
from shared.errors import NoetlError, Refused, Unavailable, Unknown
from shared.events import subjects
from shared.runtime.embedded.nats_server import NatsServer
from tests.support.following import lazy, take
from tests.support.servers.nats import POOLS, quick_topology
from tests.support.waiting import until

__all__ = ["lazy"]

STREAM = events_stream(0)
WANTED = quick_topology()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One of its own: it is killed."""
    server = NatsServer(tmp_path, pools=POOLS).start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[JetStreamBus]:
    bus = await connect(server.url_for("admin"))
    await ensure(bus, WANTED)
    yield bus
    await bus.close()


@pytest.fixture
async def writer(server: NatsServer) -> AsyncIterator[JetStreamBus]:
    """A second connection, which stays up while the first is replaced."""
    bus = await connect(server.url_for("admin"))
    yield bus
    await bus.close()


async def eventually_appended(bus: JetStreamBus, subject: str, data: bytes = b"") -> int:
    return await until(lambda: bus.append(subject, data), "a message is stored", 10, despite=(Unavailable,))


async def consumers(bus: JetStreamBus, stream: str) -> int:
    return int((await bus.requests.api(f"STREAM.INFO.{stream}"))["state"]["consumer_count"])


async def test_ensure_twice_changes_nothing(bus: JetStreamBus) -> None:
    created = await bus.created(STREAM)
    assert await ensure(bus, WANTED) == []
    assert await bus.created(STREAM) == created


async def test_an_event_stream_offers_no_way_around_a_permission(bus: JetStreamBus) -> None:
    config = (await bus.requests.api(f"STREAM.INFO.{STREAM}"))["config"]
    assert config["deny_delete"] is True
    assert config["deny_purge"] is True
    assert config["storage"] == "file"
    for forbidden in ("allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_schedules", "allow_atomic"):
        assert not config.get(forbidden)


async def test_another_setting_is_reported_and_left_alone(bus: JetStreamBus) -> None:
    other = replace(WANTED, consumers=tuple(replace(c, lease_s=9.0) for c in WANTED.consumers))
    drifts = await ensure(bus, other)
    assert Drift("NOETL_COMMANDS/gpu", "ack_wait", int(9e9), int(0.6e9)) in drifts
    assert {d.field for d in drifts} == {"ack_wait"}
    assert await ensure(bus, WANTED) == []


async def test_a_log_from_before_pools_were_part_of_a_subject_takes_records_of_pools(bus: JetStreamBus) -> None:
    config = (await bus.requests.api(f"STREAM.INFO.{STREAM}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{STREAM}", {**config, "subjects": ["noetl.events.0.*.*"]})
    old = await bus.append("noetl.events.0.x.worker", b"old")
    with pytest.raises(Unavailable):
        await bus.append("noetl.events.0.x.worker.default", b"new")
    (drift,) = await ensure(bus, WANTED, apply=True)
    assert (drift.name, drift.field, drift.applied) == (STREAM, "subjects", True)
    new = await bus.append("noetl.events.0.x.worker.default", b"new")
    assert [m.seq for m in await bus.read(STREAM, subjects.written(0, "x", ["worker"]))] == [old, new]
    assert await take(bus.follow(STREAM, subjects.events_by(0, "worker", "router"), 0), 2) == [old, new]


async def test_only_safe_settings_are_applied(bus: JetStreamBus) -> None:
    events, *rest = WANTED.streams
    other = replace(WANTED, streams=(replace(events, sealed=False, duplicate_window_s=60.0), *rest))
    drifts = await ensure(bus, other, apply=True)
    assert {(d.field, d.applied) for d in drifts} == {
        ("duplicate_window", True),
        ("deny_delete", False),
        ("deny_purge", False),
        ("discard", False),
    }
    assert {d.field for d in await ensure(bus, other)} == {"deny_delete", "deny_purge", "discard"}


async def test_a_limit_on_the_log_refuses_and_deletes_nothing_also_on_one_from_before(bus: JetStreamBus) -> None:
    """Streams were made with `discard: old` once: `ensure` changes it, and a limit no longer deletes."""
    config = (await bus.requests.api(f"STREAM.INFO.{STREAM}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{STREAM}", {**config, "discard": "old"})
    for number in range(10):
        await bus.append(f"noetl.events.0.x{number}.router", b"x" * 1000)
    (drift,) = await ensure(bus, WANTED, apply=True)
    assert (drift.name, drift.field, drift.found, drift.applied) == (STREAM, "discard", "old", True)
    config = (await bus.requests.api(f"STREAM.INFO.{STREAM}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{STREAM}", {**config, "max_bytes": 5000})
    for expected in (None, 0):
        with pytest.raises(Unavailable, match="maximum bytes exceeded"):
            await bus.append("noetl.events.0.y.router", b"x" * 1000, expected=expected)
    found = (await bus.requests.api(f"STREAM.INFO.{STREAM}"))["state"]
    assert (found["first_seq"], found["messages"]) == (1, 10)
    await bus.requests.api(f"STREAM.UPDATE.{STREAM}", {**config, "max_bytes": -1})
    assert await bus.append("noetl.events.0.y.router", b"x" * 1000, expected=0) == 11


async def test_a_catalogue_from_before_histories_keeps_one_from_now_on_and_never_less(bus: JetStreamBus) -> None:
    catalogue = stream_of(topology.PLAYBOOKS)
    config = (await bus.requests.api(f"STREAM.INFO.{catalogue}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{catalogue}", {**config, "max_msgs_per_subject": 1})
    (drift,) = await ensure(bus, WANTED, apply=True)
    assert (drift.name, drift.field, drift.applied) == (catalogue, "max_msgs_per_subject", True)
    for value in (b"1", b"2", b"3"):
        await bus.kv_put(topology.PLAYBOOKS, "path.a.=", value)
    assert [each.data for each in await bus.read(catalogue, [">"])] == [b"1", b"2", b"3"]
    fewer = replace(WANTED, buckets=tuple(replace(each, history=1) for each in WANTED.buckets))
    (drift,) = await ensure(bus, fewer, apply=True)
    assert not drift.applied


async def test_two_services_may_ensure_at_the_same_time(server: NatsServer) -> None:
    buses = [await connect(server.url_for("admin")) for _ in range(3)]
    assert await asyncio.gather(*(ensure(bus, WANTED) for bus in buses)) == [[], [], []]
    for bus in buses:
        await bus.close()


async def test_the_memory_queue_is_gone_after_a_kill_and_made_again_by_a_scheduler(
    server: NatsServer, bus: JetStreamBus
) -> None:
    scheduler = await connect(server.url_for("scheduler"))
    worker = await connect(server.url_for("worker_default"))
    consumer = await worker.consume(COMMANDS, "default", 8)
    waiting = asyncio.create_task(consumer.batch(1))
    before = await scheduler.created(COMMANDS)
    server.kill()
    server.start()
    await eventually_appended(bus, "noetl.events.0.x.router")
    with pytest.raises(Unavailable):
        await bus.created(COMMANDS)
    await asyncio.sleep(0.5)  # the worker goes on asking for a durable that is not there
    await until(lambda: ensure(scheduler, queue_only(WANTED)), "a queue", 5, so=lambda _: True, despite=(Unavailable,))
    assert await scheduler.created(COMMANDS) > before
    await scheduler.append("noetl.commands.default.x.r1", b"")
    assert [d.subject for d in await asyncio.wait_for(waiting, 5)] == ["noetl.commands.default.x.r1"]
    await scheduler.close()
    await worker.close()


async def test_a_follower_misses_nothing_over_a_killed_server(
    server: NatsServer, bus: JetStreamBus, lazy: bool
) -> None:
    follower = bus.follow(STREAM, ["noetl.events.0.>"], 0, lazy=lazy)
    for i in range(10):
        await bus.append(f"noetl.events.0.e{i}.router", b"")
    assert await take(follower, 10) == list(range(1, 11))
    for start in (11, 21):
        reading = asyncio.create_task(take(follower, 10))
        await asyncio.sleep(0.05)
        server.kill()
        await asyncio.sleep(0.1)
        server.start()
        for i in range(10):
            await eventually_appended(bus, f"noetl.events.0.e{start + i}.router")
        assert await reading == list(range(start, start + 10))
    await follower.close()


async def test_a_follower_misses_nothing_over_reconnects(bus: JetStreamBus, writer: JetStreamBus, lazy: bool) -> None:
    rounds, each = 5, 1000
    follower = bus.follow(STREAM, ["noetl.events.0.>"], 0, lazy=lazy)
    reading = asyncio.create_task(take(follower, rounds * each))
    for done in range(rounds):
        numbers = range(done * each, (done + 1) * each)
        futures = [await writer.send(f"noetl.events.0.e{i}.router", b"x" * 100) for i in numbers]
        await bus.connection.force_reconnect()
        await asyncio.gather(*futures)
        await until(lambda: bus.connection.stats["reconnects"] > done, "connected again", 5)  # noqa: B023
    assert bus.connection.stats["reconnects"] == rounds
    assert await reading == list(range(1, rounds * each + 1))
    await follower.close()


async def test_a_follower_makes_its_consumer_again_when_it_was_deleted(bus: JetStreamBus) -> None:
    follower = bus.follow(STREAM, ["noetl.events.0.>"], 0)
    await bus.append("noetl.events.0.a.router", b"")
    await take(follower, 1)
    names = (await bus.requests.api(f"CONSUMER.NAMES.{STREAM}"))["consumers"]
    reading = asyncio.create_task(take(follower, 1))
    await asyncio.sleep(0.05)
    await bus.requests.api(f"CONSUMER.DELETE.{STREAM}.{names[0]}")
    await bus.append("noetl.events.0.b.router", b"")
    assert await reading == [2]
    await follower.close()


async def test_closing_a_follower_deletes_its_consumer_and_a_lazy_one_has_none(bus: JetStreamBus, lazy: bool) -> None:
    follower = bus.follow(STREAM, ["noetl.events.0.>"], 0, lazy=lazy)
    await bus.append("noetl.events.0.a.router", b"")
    await take(follower, 1)
    assert await consumers(bus, STREAM) == (0 if lazy else 1)
    await follower.close()
    assert await consumers(bus, STREAM) == 0


async def test_closing_the_bus_closes_its_followers(server: NatsServer, bus: JetStreamBus, lazy: bool) -> None:
    other = await connect(server.url_for("router"))
    await bus.append("noetl.events.0.a.router", b"")
    await take(other.follow(STREAM, ["noetl.events.0.>"], 0, lazy=lazy), 1)
    await other.close()
    assert await consumers(bus, STREAM) == 0


async def test_publishes_under_way_are_unknown_when_the_server_dies(
    server: NatsServer, bus: JetStreamBus
) -> None:
    futures = [await bus.send(f"noetl.events.0.e{i}.router", b"x") for i in range(500)]
    server.kill()
    answers = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 3)
    lost = [a for a in answers if isinstance(a, BaseException)]
    assert lost
    assert all(isinstance(a, Unknown) for a in lost)
    server.start()
    await eventually_appended(bus, "noetl.events.0.last.router")
    stored = {m.subject for m in await bus.read(STREAM, ["noetl.events.0.>"])}
    confirmed = {f"noetl.events.0.e{i}.router" for i, a in enumerate(answers) if isinstance(a, int)}
    assert confirmed <= stored


async def test_a_publish_waits_for_a_short_outage(server: NatsServer, bus: JetStreamBus) -> None:
    server.kill()
    await until(lambda: not bus.connection.is_connected, "cut off", every_s=0.01)
    sending = asyncio.create_task(bus.append("noetl.events.0.a.router", b""))
    await asyncio.sleep(0.1)
    server.start()
    assert await asyncio.wait_for(sending, 5) == 1


async def test_a_publish_in_a_long_outage_is_unavailable_and_never_applied(
    server: NatsServer, bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.bus.publisher.ANSWER_S", 0.2)
    server.kill()
    await until(lambda: not bus.connection.is_connected, "cut off", every_s=0.01)
    with pytest.raises(Unavailable) as caught:
        await bus.append("noetl.events.0.a.router", b"")
    assert not isinstance(caught.value, Unknown)
    server.start()
    monkeypatch.undo()
    assert await eventually_appended(bus, "noetl.events.0.b.router") == 1


async def test_an_answer_that_never_comes_is_unknown(
    bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber takes the request and says nothing: no stream is behind the subject."""
    monkeypatch.setattr("shared.bus.publisher.ANSWER_S", 0.2)
    inbox = await bus.subscribe("silent.subject")
    with pytest.raises(Unknown):
        await asyncio.wait_for(bus.append("silent.subject", b""), 3)
    await inbox.close()


async def test_a_message_over_the_limit_is_refused_before_it_is_sent(bus: JetStreamBus) -> None:
    with pytest.raises(NoetlError, match="the broker takes"):
        await bus.append("noetl.events.0.a.router", b"x" * (1 << 21))
    assert await bus.append("noetl.events.0.a.router", b"x" * (1 << 19)) == 1
    assert len((await bus.read(STREAM, ["noetl.events.0.a.*"]))[0].data) == 1 << 19


async def test_nobody_answering_is_unavailable(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    with pytest.raises(Unavailable) as caught:
        await connect(server.url_for("admin"), within_s=0.3)
    assert server.passwords["admin"] not in str(caught.value)


def test_a_server_keeps_its_passwords_private_and_over_restarts(tmp_path: Path) -> None:
    first = NatsServer(tmp_path, pools=("default",))
    second = NatsServer(tmp_path, pools=("default", "gpu"))
    assert first.passwords.items() <= second.passwords.items()
    for name in ("passwords.json", "nats.conf"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_port_in_use_is_said_clearly(server: NatsServer, tmp_path: Path) -> None:
    other = NatsServer(tmp_path / "other", port=server.port)
    with pytest.raises(Unavailable, match="did not start"):
        other.start()


def test_topology_of_the_queue_is_the_commands_alone() -> None:
    queue = queue_only(topology.wanted(POOLS))
    assert [s.name for s in queue.streams] == [COMMANDS]
    assert [c.name for c in queue.consumers] == list(POOLS)
    assert queue.buckets == ()


def test_the_server_listens_on_loopback_only(server: NatsServer) -> None:
    config = msgspec.json.decode((server.folder / "nats.conf").read_bytes())
    assert config["host"] == "127.0.0.1"
    assert {"http", "cluster", "leafnodes", "websocket", "mqtt", "gateway"}.isdisjoint(config)


def test_a_pool_name_that_would_widen_a_subject_is_refused(tmp_path: Path) -> None:
    for name in ("*", ">", "a.b", "", "a b"):
        with pytest.raises(Refused):
            NatsServer(tmp_path, pools=(name,))


async def test_a_queue_at_its_limit_is_named(bus: JetStreamBus) -> None:
    await ensure(bus, WANTED)
    assert await limited(bus) == ""
    config = (await bus.requests.api(f"STREAM.INFO.{COMMANDS}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{COMMANDS}", {**config, "max_bytes": 100})
    assert f"{COMMANDS} has 0 bytes of the 100" in await limited(bus)
