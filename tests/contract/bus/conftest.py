"""Every contract test runs on the real broker and on the one in memory: one server, and a cluster of replicas that
are behind by something else at every answer."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared.bus.jetstream import connect
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.ports import Bus
from shared.runtime.service.clock import SystemClock
from tests.support.servers.nats import admin, nats_server, quick_topology

__all__ = ["admin", "nats_server"]
Connect = Callable[[str], Awaitable[Bus]]


MOST_BEHIND = 3  # messages


@pytest.fixture(params=["jetstream", "memory", "memory replicas"])
def make(request: pytest.FixtureRequest) -> Connect:
    return _jetstream(request) if request.param == "jetstream" else _memory(request.param == "memory replicas")


@pytest.fixture
async def connect_as(make: Connect) -> AsyncIterator[Connect]:
    """Opens a connection as a user of the stack; the memory bus has no permissions."""
    opened: list[Bus] = []

    async def open_bus(user: str) -> Bus:
        opened.append(await make(user))
        return opened[-1]

    yield open_bus
    for bus in opened:
        await bus.close()


@pytest.fixture
async def bus(connect_as: Connect) -> Bus:
    return await connect_as("admin")


def _memory(has_replicas: bool) -> Connect:
    broker = MemoryBroker(SystemClock(), quick_topology())
    if has_replicas:
        rng = random.Random(7)
        broker.lag = lambda _client, _stream: rng.randint(0, MOST_BEHIND)

    async def make(user: str) -> Bus:
        return MemoryBus(broker, user)

    return make


def _jetstream(request: pytest.FixtureRequest) -> Connect:
    server = request.getfixturevalue("nats_server")
    request.getfixturevalue("admin")  # has made the streams anew

    async def make(user: str) -> Bus:
        return await connect(server.url_for(user))

    return make
