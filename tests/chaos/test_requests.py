"""The same request again, however it comes again, starts one execution."""

import asyncio

import msgspec

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Inbox
from shared.events import model as ev
from shared.events import subjects
from shared.events.request import Request, derive_id
from tests.chaos.driving.log import Log, check
from tests.chaos.driving.support import Cluster

KEY = "order-17"
ANSWER_S = 60.0


async def ask(bus: JetStreamBus, inbox: str) -> None:
    headers = {"Nats-Msg-Id": KEY, "Noetl-Reply-To": inbox}
    await bus.append(subjects.EXECUTE, msgspec.json.encode(Request("chaos/chain")), headers=headers)


async def test_a_request_repeated_within_and_beyond_the_broker_s_memory_starts_one_execution(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log, execution_id = await Log.open(bus), derive_id("id", KEY)
    answers = await bus.subscribe("_INBOX_admin.answers")
    await ask(bus, "_INBOX_admin.answers")
    await ask(bus, "_INBOX_admin.answers")  # the broker remembers the id and drops it
    await log.until_over([execution_id])
    assert await answer(answers) == {"execution_id": execution_id, "status": "started", "error": None}

    await cluster.kill_nats()
    await cluster.start_nats_again(bus)
    await forget_ids(bus)
    await ask(bus, "_INBOX_admin.answers")
    assert await answer(answers) == {"execution_id": execution_id, "status": "duplicate", "error": None}

    await log.poll()
    assert set(log.histories) == {execution_id}
    assert sum(isinstance(event, ev.ExecutionRequested) for _, event in log.events(execution_id)) == 1
    await check(log, [execution_id])
    assert await waiting(bus) == 0


async def forget_ids(bus: JetStreamBus) -> None:
    """Makes the broker's memory of message ids as short as it can be, and waits until it is over."""
    config = (await bus.requests.api(f"STREAM.INFO.{topology.REQUESTS}"))["config"]
    await bus.requests.api(f"STREAM.UPDATE.{topology.REQUESTS}", config | {"duplicate_window": 100_000_000})
    await asyncio.sleep(1.0)


async def answer(answers: Inbox) -> object:
    async with asyncio.timeout(ANSWER_S):
        return msgspec.json.decode(await answers.next())


async def waiting(bus: JetStreamBus) -> int:
    """Requests not taken yet, once the routers' acks have arrived."""
    for _ in range(100):
        info = await bus.requests.api(f"CONSUMER.INFO.{topology.REQUESTS}.router")
        left = int(info["num_pending"]) + int(info["num_ack_pending"])
        if not left:
            break
        await asyncio.sleep(0.05)
    return left
