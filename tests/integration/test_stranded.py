"""On a real broker: a purge by subject moves the floor of a consumer past what it holds, and the scheduler mends it."""

import asyncio

import pytest

from services.scheduler.publisher import Publishing, subject_of
from services.scheduler.reissue import Again
from services.scheduler.stranded import Stranded
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.ports import ConsumerState
from shared.bus.topology import COMMANDS
from shared.errors import Duplicate
from shared.events import command as commands
from shared.events.command import Command
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.clock import SystemClock
from tests.support.servers.nats import LEASE_S

A, B, C = (Command("x", run, "s", "d", "default", 1) for run in "abc")


async def put(bus: JetStreamBus, item: Command) -> None:
    await bus.append(subject_of(item), commands.encode(item), headers={"Nats-Msg-Id": subject_of(item)})


async def test_a_command_that_a_purge_stranded_is_found_and_delivered_again(
    nats_server: NatsServer, admin: JetStreamBus
) -> None:
    for item in (A, B, C):
        await put(admin, item)
    consumer = await admin.consume(COMMANDS, "default", 8)
    held = {each.subject: each for _ in "abc" for each in await consumer.batch(1)}
    for each in held.values():
        await each.progress()
    await admin.requests.api(f"STREAM.PURGE.{COMMANDS}", {"filter": subject_of(B)})
    await held[subject_of(C)].ack()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(4 * LEASE_S):
            await consumer.batch(1)
    assert await admin.consumer(COMMANDS, "default") == ConsumerState(pending=0, held=0, last=3, floor=3)
    with pytest.raises(Duplicate):
        await admin.append(subject_of(A), b"")

    scheduler = await connect(nats_server.url_for("scheduler"))
    publishing = Publishing(scheduler, SystemClock())
    publishing.looked(scheduler.connections)
    running = asyncio.create_task(publishing.run())
    try:
        await Stranded(scheduler, publishing, Again(scheduler, publishing.again)).look([A])
        async with asyncio.timeout(30):
            (again,) = await consumer.batch(1)
        assert again.subject == subject_of(A)
        assert again.epoch > held[subject_of(A)].epoch
    finally:
        running.cancel()
        await scheduler.close()
