"""A stream as one file, made and restored by the broker itself: every message with its sequence, time and headers,
the gaps between them, and its durable consumers with what they have acknowledged.

The broker sends the next chunk when an earlier one is acknowledged, and takes them one by one: neither side ever
holds more than a few.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from shared.bus import api
from shared.bus.api_requests import read_answer
from shared.bus.jetstream import JetStreamBus
from shared.bus.wire import pub, status_of, text
from shared.errors import Unavailable

CHUNK_BYTES = 131_072
CHUNK_S = 30.0   # after this long without an answer it is given up
CHECK_S = 600.0  # the checksums of all messages are looked at before the first chunk, and after the last one


class Saved(Struct, frozen=True):
    """`config` and `state` of the stream as the broker gave them with the first chunk."""

    config: dict[str, Any]
    state: dict[str, Any]


async def save(bus: JetStreamBus, stream: str, sink: Callable[[bytes], object]) -> Saved:
    """Hands the chunks to `sink`, in order. The stream may be written meanwhile; nothing before the call is missing."""
    chunks: asyncio.Queue[tuple[bytes, bytes, bytes]] = asyncio.Queue()
    inbox = bus.connection.new_inbox()
    routed = await bus.connection.route(inbox, lambda _, reply, header, data: chunks.put_nowait((reply, header, data)))
    try:
        body = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, "no_consumers": False, "jsck": True}
        answer = await bus.requests.api(api.stream_snapshot(stream), body, CHECK_S)
        while True:
            reply, header, data = await _next(chunks, stream)
            if status_of(header) >= 400:
                raise Unavailable(f"the broker gave up on {stream}: {text(header).strip()}")
            if not data:
                return Saved(answer["config"], answer["state"])
            sink(data)
            if reply:
                bus.connection.write(pub(text(reply), "", b""))
    finally:
        await bus.connection.unroute(routed)


async def _next(chunks: "asyncio.Queue[tuple[bytes, bytes, bytes]]", stream: str) -> tuple[bytes, bytes, bytes]:
    try:
        async with asyncio.timeout(CHUNK_S):
            return await chunks.get()
    except TimeoutError:
        raise Unavailable(f"no further part of {stream} in {CHUNK_S} s") from None


async def restore(bus: JetStreamBus, stream: str, saved: Saved, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Makes the stream, which must not be there, and gives its state: that of the broker, after it has read it all."""
    place = (await bus.requests.api(api.stream_restore(stream), {"config": saved.config, "state": saved.state}))
    subject = place["deliver_subject"]
    for chunk in chunks:
        _, data = await bus.requests.one(subject, chunk, CHUNK_S)
        if data:
            read_answer(data, subject)
    _, data = await bus.requests.one(subject, b"", CHECK_S)
    state: dict[str, Any] = read_answer(data, subject)["state"]
    return state
