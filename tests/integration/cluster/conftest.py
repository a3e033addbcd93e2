"""Three nodes: one cluster for the tests that only use it, one of its own for a test that kills and stops nodes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shared.bus.jetstream import JetStreamBus
from tests.support.servers.nats_cluster import NatsCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """Nothing happens to its nodes; its streams are there, and what others wrote. Gone with its tests: three idle nodes
    take a twentieth of a core from all that come after."""
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        asyncio.run(_ready(cluster))
        yield cluster


async def _ready(cluster: NatsCluster) -> None:
    bus = await cluster.connect("admin")
    try:
        await cluster.ensure(bus)
    finally:
        await bus.close()


@pytest.fixture
async def buses(quiet: NatsCluster) -> AsyncIterator[list[JetStreamBus]]:
    """One connection of the administrator to each node."""
    found = [await quiet.connect("admin", node) for node in range(3)]
    yield found
    for bus in found:
        await bus.close()
