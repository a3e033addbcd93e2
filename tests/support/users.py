"""The broker as each of its users: what is there to be read or written by the wrong one."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.topology import KEYCHAIN
from shared.bus.wire import header_block, pub
from shared.errors import Unavailable
from shared.events.subjects import LEASED
from shared.runtime.embedded.nats_server import NatsServer

As = Callable[[str], Awaitable[JetStreamBus]]
SETTLE_S = 0.15


@pytest.fixture
async def as_user(nats_server: NatsServer, admin: JetStreamBus) -> AsyncIterator[As]:
    await admin.append("noetl.events.0.x.router", b"decided")
    await admin.append("noetl.commands.default.x.r1", b"mine")
    await admin.append("noetl.commands.gpu.x.r2", b"theirs")
    await admin.append("noetl.results.x.sha.0", b"chunk")
    await admin.kv_put(KEYCHAIN, "db", b"secret")
    opened: list[JetStreamBus] = []

    async def open_as(user: str) -> JetStreamBus:
        opened.append(await connect(nats_server.url_for(user)))
        return opened[-1]

    yield open_as
    for bus in opened:
        await bus.close()


async def contents(admin: JetStreamBus) -> dict[str, list[tuple[str, bytes]]]:
    """Everything stored that is not a worker's own to write, by stream."""
    names = (await admin.requests.api("STREAM.NAMES"))["streams"]
    return {name: await _messages(admin, name) for name in names}


async def _messages(admin: JetStreamBus, stream: str) -> list[tuple[str, bytes]]:
    found = []
    for seq in range(1, await admin.last_seq(stream) + 1):
        try:
            answer = await admin.requests.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})
        except Unavailable:
            continue  # acknowledged, expired or replaced
        message = answer["message"]
        if not LEASED.intersection(message["subject"].split(".")):
            found.append((message["subject"], b64decode(message.get("data", ""))))
    return found


async def shoot(bus: JetStreamBus, subject: str, reply: str, data: bytes, headers: dict[str, str]) -> None:
    """Writes the protocol line itself: no check of the client layer is in the way."""
    bus.connection.write(pub(subject, reply, data, header_block(headers) if headers else b""))
    await asyncio.sleep(SETTLE_S)
