"""What a broken connection leaves behind: nothing that takes commands, and not a long silence."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.ports import Follower
from shared.bus.queue_consumer import QueueConsumer
from shared.bus.topology import COMMANDS, events_stream
from shared.runtime.embedded.nats_server import NatsServer
from tests.support.servers.proxy import HOST, Proxy
from tests.support.waiting import until

RESETS = 6
MESSAGES = 12
UNSENT = 40
FORGOTTEN_S = 10.5
SOON_S = 0.4  # below the lease of a test's queue (0.6 s): none came a second time
NOTICED_S = 10.0


@pytest.fixture
async def proxy(nats_server: NatsServer) -> AsyncIterator[Proxy]:
    async with Proxy(nats_server.port) as proxy:
        yield proxy


async def through(proxy: Proxy, server: NatsServer, user: str) -> JetStreamBus:
    return await connect(f"nats://{user}:{server.passwords[user]}@{HOST}:{proxy.port}")


async def reset(proxy: Proxy, bus: JetStreamBus) -> None:
    """Returns when the client is connected again and has asked for messages."""
    before = bus.connections
    proxy.reset()
    await until(lambda: bus.connections, "connected again", NOTICED_S, so=lambda count: count >= before + 2)
    await asyncio.sleep(0.1)


async def flood(bus: JetStreamBus) -> None:
    """More than the buffers on the way hold."""
    for _ in range(UNSENT):
        await bus.send("noetl.events.0.e.worker", b"x" * 500_000)


async def delays(admin: JetStreamBus, server: NatsServer, proxy: Proxy, user: str) -> dict[str, tuple[float, int]]:
    """How long commands take to an idle worker whose connection was reset again and again, and how often they were
    given to it."""
    bus = await through(proxy, server, user)
    consumer = await bus.consume(COMMANDS, "default", 8)
    arrived: dict[str, tuple[float, int]] = {}

    async def work() -> None:
        while True:
            for delivery in await consumer.batch(8):
                arrived.setdefault(delivery.subject, (time.monotonic(), delivery.epoch[1]))
                await delivery.ack()

    worker = asyncio.create_task(work())
    try:
        await asyncio.sleep(0.2)
        for _ in range(RESETS):
            await reset(proxy, bus)
        sent = {}
        for number in range(MESSAGES):
            subject = f"noetl.commands.default.e.r{number}"
            sent[subject] = time.monotonic()
            await admin.append(subject, b"x")
            await asyncio.sleep(0.05)
        await until(lambda: len(arrived), f"{MESSAGES} commands arrive", 60.0, so=lambda count: count == MESSAGES)
        return {subject: (arrived[subject][0] - at, arrived[subject][1]) for subject, at in sent.items()}
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await bus.close()


@pytest.mark.parametrize("user", ["worker_default", "admin"])
async def test_commands_come_at_once_after_the_connection_was_reset(
    admin: JetStreamBus, nats_server: NatsServer, proxy: Proxy, user: str
) -> None:
    found = await delays(admin, nats_server, proxy, user)
    assert {subject: late for subject, (late, _) in found.items() if late > SOON_S} == {}
    assert {count for _, count in found.values()} == {1}


async def test_with_the_same_inbox_for_every_connection_commands_would_be_swallowed(
    admin: JetStreamBus, nats_server: NatsServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant of the test above: resets are what finds it."""
    monkeypatch.setattr(QueueConsumer, "disconnected", QueueConsumer._forget_requests)
    found = await delays(admin, nats_server, proxy, "worker_default")
    assert any(late > SOON_S or count > 1 for late, count in found.values())


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_follower_goes_on_at_once_after_the_connection_was_reset(
    admin: JetStreamBus, nats_server: NatsServer, proxy: Proxy, lazy: bool
) -> None:
    bus = await through(proxy, nats_server, "router")
    follower: Follower = bus.follow(events_stream(0), ["noetl.events.0.*.worker"], 0, lazy=lazy)
    try:
        for number in range(RESETS):
            waiting = asyncio.create_task(_next(follower))
            await asyncio.sleep(0.1)
            await reset(proxy, bus)
            began = time.monotonic()
            seq = await admin.append("noetl.events.0.e.worker", b"%d" % number)
            async with asyncio.timeout(20):
                assert await waiting == [seq]
            assert time.monotonic() - began < 2.0
    finally:
        await follower.close()
        await bus.close()


async def _next(follower: Follower) -> list[int]:
    return [message.seq for message in await follower.batch()]


@pytest.mark.parametrize("down_only", [False, True])
async def test_a_connection_on_which_nothing_is_heard_is_replaced(
    admin: JetStreamBus, nats_server: NatsServer, proxy: Proxy, down_only: bool
) -> None:
    bus = await through(proxy, nats_server, "worker_default")
    consumer = await bus.consume(COMMANDS, "default", 8)
    taking = asyncio.create_task(consumer.batch(1))
    try:
        await asyncio.sleep(0.2)
        before, began = bus.connections, time.monotonic()
        proxy.silence(up=not down_only)
        flooding = asyncio.create_task(flood(bus))
        await until(lambda: bus.connections > before, "the connection is given up", 60.0)
        assert time.monotonic() - began < NOTICED_S
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        proxy.heal()
        await until(lambda: bus.connection.is_connected and proxy.open == 1, "one connection again", NOTICED_S)
        await admin.append("noetl.commands.default.e.r1", b"x")
        async with asyncio.timeout(30):
            assert [d.epoch[1] for d in await taking] == [1]
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await bus.close()


async def test_the_broker_does_not_keep_giving_commands_to_a_connection_that_went_silent(
    admin: JetStreamBus, nats_server: NatsServer, proxy: Proxy
) -> None:
    """It does not see that the client has gone, and what was asked for there is good for ten seconds more."""
    bus = await through(proxy, nats_server, "worker_default")
    consumer = await bus.consume(COMMANDS, "default", 8)
    taking = asyncio.create_task(consumer.batch(1))
    try:
        await asyncio.sleep(0.2)
        before = bus.connections
        proxy.silence(new=False)
        await asyncio.sleep(FORGOTTEN_S)
        assert bus.connections == before + 2
        began = time.monotonic()
        await admin.append("noetl.commands.default.e.r1", b"x")
        async with asyncio.timeout(20):
            assert [d.epoch[1] for d in await taking] == [1]
        assert time.monotonic() - began < SOON_S
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await bus.close()
