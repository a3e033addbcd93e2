"""The broker stores whatever stands in a subject or a header. Whoever reads it gets every message, once and in order,
and keeps its connection."""

import asyncio
from collections.abc import Sequence

import pytest

from shared.bus import stored_messages
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Delivery, Follower, Message
from shared.bus.topology import REQUESTS, events_stream
from shared.errors import Corrupt, Forged
from shared.events.record import decode
from tests.support.users import As
from tests.support.waiting import until

STREAM = events_stream(0)
WITHIN_S = 10.0
TOKENS = (
    b"\xff", b"\xff\xfe\x80x", b"a\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"a\x00b", b"a\x0bb", b"a\x0cb",
    b"a\x1b]52;c;eA==\x07b", b"a\x85b", b"a\x1cb", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\xff",
)
BLOCKS = (
    b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nX: y\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 408 Timeout\r\nNats-Pending-Messages: x\r\n\r\n",
    b"NATS/1.0 100 Idle\r\n\r\n",
    b"NATS/1.0\r\n::::\r\n: x\r\n\xff\xfe: \xff\r\n\r\n",
    b"NATS/1.0\r\nNats-Sequence: x\r\nNats-Time-Stamp: never\r\nNats-Subject: noetl.events.0.a.router\r\n\r\n",
    b"NATS/1.0\r\n Nats-Sequence : 1\r\nA:\x00\x0b\x1b\r\nNats-Num-Pending: 9\r\n\r\n",
)


async def shoot(bus: JetStreamBus, subject: bytes, block: bytes = b"") -> None:
    """The lines themselves: no check of the client's is in the way."""
    line = b"HPUB %b %d %d\r\n%b{}\r\n" % (subject, len(block), len(block) + 2, block)
    bus.connection.write(line if block else b"PUB %b 2\r\n{}\r\n" % subject)
    await bus.connection.flush()


async def attack(worker: JetStreamBus, admin: JetStreamBus) -> int:
    """How many records were written."""
    before = await admin.last_seq(STREAM)
    for token in TOKENS:
        await shoot(worker, b"noetl.events.0.%b.worker.default" % token)
    for block in BLOCKS:
        await shoot(worker, b"noetl.events.0.x.worker.default", block)
    count = len(TOKENS) + len(BLOCKS)
    await until(lambda: admin.last_seq(STREAM), "all are stored", WITHIN_S, so=lambda last: last == before + count)
    return count


async def taken(follower: Follower, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            found += await follower.batch()
    return found


def are_refused(messages: Sequence[Message]) -> None:
    for message in messages:
        assert message.subject.isprintable() or message.subject.encode()
        with pytest.raises(Forged):
            decode(message, 4)


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_follower_gets_what_stands_around_hostile_records(as_user: As, admin: JetStreamBus, lazy: bool) -> None:
    reader, worker = await as_user("router"), await as_user("worker_default")
    follower = reader.follow(STREAM, ["noetl.events.0.>"], 0, lazy=lazy)
    first = (await taken(follower, 1))[0]
    count = await attack(worker, admin)
    await admin.append("noetl.events.0.y.router", b"last")
    found = await taken(follower, count + 1)
    assert [message.seq for message in found] == list(range(first.seq + 1, first.seq + count + 2))
    assert (found[-1].subject, found[-1].data) == ("noetl.events.0.y.router", b"last")
    are_refused(found[:-1])
    assert reader.connections == 1
    await follower.close()


async def test_a_history_is_whole_whatever_stands_in_it(as_user: As, admin: JetStreamBus) -> None:
    """A stored status is not the broker's: it does not end a read."""
    reader, worker = await as_user("router"), await as_user("worker_default")
    count = await attack(worker, admin)
    last = await admin.append("noetl.events.0.x.router", b"last")
    whole = await reader.read(STREAM, ["noetl.events.0.>"])
    assert [message.seq for message in whole] == list(range(1, count + 3))
    few = await reader.read(STREAM, ["noetl.events.0.x.router", "noetl.events.0.x.worker.*"])
    assert len(few) == len(BLOCKS) + 2
    assert few[-1].seq == last
    are_refused([message for message in whole if b"last" not in message.data and b"decided" not in message.data])
    await shoot(worker, b"noetl.events.0.x.worker.default", BLOCKS[0])
    assert (await reader.get(STREAM, "noetl.events.0.x.worker.default")) is not None
    assert (await reader.find(STREAM, "noetl.events.0.*.worker.default")) is not None
    assert (await stored_messages.last(admin, STREAM, "noetl.events.0.x.worker.default")) is not None
    assert (await stored_messages.first(admin, STREAM, "noetl.events.0.x.worker.default")) is not None
    assert reader.connections == admin.connections == 1


async def test_requests_and_core_messages_come_through(as_user: As, admin: JetStreamBus) -> None:
    router = await as_user("router")
    consumer = await router.consume(REQUESTS, "router", 64)
    inbox = await router.subscribe("noetl.members.>")
    for token in TOKENS:
        await shoot(admin, b"noetl.requests.%b" % token)
        await shoot(admin, b"noetl.members.%b" % token)
    for block in BLOCKS:
        await shoot(admin, b"noetl.requests.execute", block)
        await shoot(admin, b"noetl.members.x", block)
    count = len(TOKENS) + len(BLOCKS)
    deliveries: list[Delivery] = []
    async with asyncio.timeout(WITHIN_S):
        while len(deliveries) < count:
            deliveries += await consumer.batch(64)
        heard = [await inbox.message() for _ in range(count)]
    assert len({delivery.seq for delivery in deliveries}) == count
    assert all(delivery.subject.encode() and repr(delivery.headers) for delivery in deliveries)
    assert len({message.subject for message in heard}) == len(TOKENS) - 1 + 1  # two of them look alike
    for delivery in deliveries:
        await delivery.ack()
    assert router.connections == 1
    await consumer.close()


async def test_where_services_write_it_is_corrupt(as_user: As, admin: JetStreamBus) -> None:
    await shoot(admin, b"noetl.events.0.\xff.router")
    found = await (await as_user("router")).find(STREAM, "noetl.events.0.>", 1)
    assert found is not None
    with pytest.raises(Corrupt, match="no execution"):
        decode(found, 4)
