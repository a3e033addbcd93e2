"""The systems that the chaos tests break: one of each service, and two of each."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from tests.chaos.driving.support import ONE, Cluster
from tests.support.proved import assert_all_right

pytest.register_assert_rewrite(*(f"tests.chaos.driving.{name}" for name in ("ledger", "killing", "log", "projection")))


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A module says with SIZES how many of each it wants. Whatever ran on it, finished or not, is verified before it
    goes down, with its rows in the read model."""
    with Cluster(getattr(request.module, "SIZES", ONE)) as running:
        yield running
        asyncio.run(_verify(running))


async def _verify(cluster: Cluster) -> None:
    await cluster.heal()
    bus = await cluster.connect()
    try:
        await assert_all_right(bus, topology.PARTITIONS, cluster.dsn)
    finally:
        await bus.close()


@pytest.fixture
async def bus(cluster: Cluster) -> AsyncIterator[JetStreamBus]:
    """The administrator's, of a system in which everything runs."""
    await cluster.heal()
    bus = await cluster.connect()
    try:
        yield bus
    finally:
        await bus.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the processes said last."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Cluster):
                report.sections.append(("logs of the processes", value.tails()))
    return report
