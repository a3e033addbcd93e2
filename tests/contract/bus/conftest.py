"""Every contract test runs on the real broker and on the one in memory."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared.bus.jetstream import connect
from shared.bus.memory import MemoryBroker, MemoryBus
from shared.bus.ports import Bus
from shared.runtime.clock import SystemClock
from tests.support.nats import admin, nats_server, quick_topology

__all__ = ["admin", "nats_server"]
Connect = Callable[[str], Awaitable[Bus]]


@pytest.fixture(params=["jetstream", "memory"])
def make(request: pytest.FixtureRequest) -> Connect:
    return _memory() if request.param == "memory" else _jetstream(request)


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


def _memory() -> Connect:
    broker = MemoryBroker(SystemClock(), quick_topology())

    async def make(user: str) -> Bus:
        return MemoryBus(broker, user)

    return make


def _jetstream(request: pytest.FixtureRequest) -> Connect:
    server = request.getfixturevalue("nats_server")
    request.getfixturevalue("admin")  # has made the streams anew

    async def make(user: str) -> Bus:
        return await connect(server.url_for(user))

    return make
