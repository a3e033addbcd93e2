"""What a follower does with what its consumer sends."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from shared.bus.follow import StreamFollower
from tests.support.waiting import until


class Broker:
    """A connection and its requests: every request is granted, and a test says what is delivered."""

    is_clustered = False

    def __init__(self, last: int) -> None:
        self._last = last
        self.asked: list[bytes] = []

    async def api(self, _subject: str, _body: object = None) -> dict[str, Any]:
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
