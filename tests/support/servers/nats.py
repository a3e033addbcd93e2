"""A real nats-server for tests: one per session on a free port, its streams made anew for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.errors import Unavailable
from shared.runtime.embedded.nats_server import NatsServer

POOLS = ("default", "gpu")
LEASE_S = 0.6
TTL_S = 1.0
TRIES = 50


def quick_topology() -> topology.Topology:
    """The product's topology with leases and ages that a test can wait for."""
    wanted = topology.wanted(POOLS)
    return replace(
        wanted,
        consumers=tuple(replace(c, lease_s=LEASE_S) for c in wanted.consumers),
        buckets=tuple(replace(b, ttl_s=TTL_S) if b.ttl_s else b for b in wanted.buckets),
    )


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"), pools=POOLS).start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def admin(nats_server: NatsServer) -> AsyncIterator[JetStreamBus]:
    """Allowed everything in the control account; the streams are there and empty."""
    bus = await connect(nats_server.url_for("admin"))
    try:
        await clear(bus)
        await made_anew(bus)
        yield bus
    finally:
        await bus.close()


async def made_anew(bus: JetStreamBus, wanted: topology.Topology | None = None) -> None:
    """The server deletes files behind its answer: for a moment a stream of the same name cannot be stored, or finds
    what the old one held."""
    for _ in range(TRIES):
        with suppress(Unavailable):
            await ensure(bus, wanted or quick_topology())
            listed = (await bus.requests.api("STREAM.LIST"))["streams"]
            if all(stream["state"]["messages"] == 0 for stream in listed):
                return
        await asyncio.sleep(0.1)
        await clear(bus)
    raise AssertionError(f"no empty streams after {TRIES} tries")


async def clear(bus: JetStreamBus) -> None:
    for name in (await bus.requests.api("STREAM.NAMES"))["streams"] or []:
        await bus.requests.api(f"STREAM.DELETE.{name}")
