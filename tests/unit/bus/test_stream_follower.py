"""What a follower does with what its consumer sends."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from shared.bus.stream_follower import StreamFollower
from shared.errors import Corrupt
from tests.support.waiting import until


class Broker:
    """A connection and its requests: every request is granted, and a test says what is delivered."""

    is_clustered = False

    def __init__(self, last: int) -> None:
        self._last = last
        self.asked: list[bytes] = []

    async def api(self, _subject: str, _body: object = None, *, again: bool = False) -> dict[str, Any]:
        return {"state": {"last_seq": self._last}}

    async def route(self, _subject: str, arrived: Callable[[bytes, bytes, bytes, bytes], None]) -> object:
        self.deliver = arrived
        return object()

    def write(self, data: bytes) -> None:
        self.asked.append(data)


async def test_what_was_read_already_is_not_delivered_again() -> None:
    """A consumer that is made on a replica which is behind begins before the sequence it was asked for."""
    broker = cast(Any, Broker(last=8))
    reading = asyncio.create_task(StreamFollower(broker, broker, "_INBOX.f", "S", ["a.>"], 5).batch())
    await until(lambda: broker.asked, "messages are asked for", 5.0)
    for number, seq in enumerate((4, 5, 6, 8), start=1):
        broker.deliver(b"a.b", b"$JS.ACK.S.c.1.%d.%d.0.0" % (seq, number), b"", b"")
    assert [message.seq for message in await reading] == [6, 8]


async def test_a_message_that_cannot_be_taken_ends_the_follower_and_is_not_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our mistake, if it ever is: what came before is given, then whoever follows learns of it."""
    broker = cast(Any, Broker(last=8))
    follower = StreamFollower(broker, broker, "_INBOX.f", "S", ["a.>"], 0)
    reading = asyncio.create_task(follower.batch())
    await until(lambda: broker.asked, "messages are asked for", 5.0)
    broker.deliver(b"a.b", b"$JS.ACK.S.c.1.1.1.0.0", b"", b"")
    monkeypatch.setattr("shared.bus.stream_follower.stored_headers", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        broker.deliver(b"a.b", b"$JS.ACK.S.c.1.2.2.0.0", b"", b"")
    broker.deliver(b"a.b", b"$JS.ACK.S.c.1.3.3.0.0", b"", b"")
    assert [message.seq for message in await reading] == [1]
    with pytest.raises(Corrupt, match="a message of S after 1 cannot be taken"):
        await follower.batch()


@pytest.mark.parametrize("reply", [b"_INBOX.me", b"$JS.ACK.S.c.1.x.1.0.0", b"$JS.ACK", b"$JS.ACK.S.c.1.\xff.1.0.0"])
async def test_what_no_consumer_sent_is_no_message(reply: bytes) -> None:
    broker = cast(Any, Broker(last=8))
    reading = asyncio.create_task(StreamFollower(broker, broker, "_INBOX.f", "S", ["a.>"], 0).batch())
    await until(lambda: broker.asked, "messages are asked for", 5.0)
    broker.deliver(b"a.b", reply, b"", b"")
    broker.deliver(b"a.\xff", b"$JS.ACK.S.c.1.1.1.0.0", b"NATS/1.0\r\n\xff: \xfe\r\n\r\n", b"")
    assert [(message.subject, message.headers) for message in await reading] == [("a.\\xff", {"\\xff": "\\xfe"})]
