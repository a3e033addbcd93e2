"""How far ahead of its caller a consumer asks."""

import asyncio

from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.ports import Delivery
from shared.bus.queue_consumer import AHEAD_S, HOLD_S, Pace
from shared.bus.topology import COMMANDS, REQUEST_LEASE_S, REQUESTS
from shared.events import subjects
from shared.runtime.embedded.nats_server import NatsServer


def test_nothing_is_asked_ahead_for_work_that_is_not_done_yet() -> None:
    pace = Pace(16)
    for taken in range(16):
        assert pace.ahead(16 - taken, 0.001 * taken) == 0
        pace.took(16 - taken, 1)


def test_what_was_done_in_the_last_moment_is_asked_ahead() -> None:
    pace = Pace(16)
    assert pace.ahead(4, 0.0) == 0
    pace.took(4, 4)
    assert pace.ahead(4, 0.01) == 4
    pace.took(4, 4)
    assert pace.ahead(4, 0.02) == 8


def test_the_limit_and_the_past_bound_it() -> None:
    pace = Pace(5)
    for i in range(10):
        pace.ahead(4, 0.001 * i)
        pace.took(4, 4)
    assert pace.ahead(4, 0.02) == 5
    assert pace.ahead(4, 0.02 + 3 * AHEAD_S) == 0


async def test_what_a_stalled_worker_fetched_ahead_goes_to_another(
    nats_server: NatsServer, admin: JetStreamBus
) -> None:
    """It was quick, so it was served ahead; then all its slots are busy with something long."""
    quick = await connect(nats_server.url_for("worker_default"))
    consumer = await quick.consume(COMMANDS, "default", 16)
    for i in range(40):
        await admin.append(f"noetl.commands.default.x.r{i}", b"run")
    done = 0
    while done < 24:
        for delivery in await consumer.batch(2):
            await delivery.ack()
            done += 1
    idle = await connect(nats_server.url_for("worker_default"))
    other = await idle.consume(COMMANDS, "default", 16)
    async with asyncio.timeout(HOLD_S + 2):
        while done < 40:
            for delivery in await other.batch(16):
                await delivery.ack()
                done += 1
    await quick.close()
    await idle.close()


async def test_what_is_kept_is_delivered_once_however_long_the_caller_takes(
    nats_server: NatsServer, admin: JetStreamBus
) -> None:
    """Two routers wait for a stream that has no leader: requests that they handed back to each other meanwhile counted
    as tried, and waited for up to a minute when all was well again."""
    found = (await admin.requests.api(f"CONSUMER.INFO.{REQUESTS}.router"))["config"]
    config = {"stream_name": REQUESTS, "config": {**found, "ack_wait": int(REQUEST_LEASE_S * 1e9)}, "action": "update"}
    await admin.requests.api(f"CONSUMER.CREATE.{REQUESTS}.router", config)
    for i in range(40):
        await admin.append(subjects.EXECUTE, b"%d" % i)
    router = await connect(nats_server.url_for("router"))
    consumer, taken = await router.consume(REQUESTS, "router", 16, keep=True), list[Delivery]()
    async with asyncio.timeout(10):
        while len(taken) < 40:
            batch = await consumer.batch(2)
            for delivery in batch:
                await delivery.ack()
            taken += batch
            if len(taken) == 24:  # it was quick, so it was served ahead
                await asyncio.sleep(3 * HOLD_S)
    assert [delivery.epoch[1] for delivery in taken] == [1] * 40
    await router.close()
