"""A worker that dies is taken over long before its leases are over: they are the product's, of 15 seconds."""

import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.streams import ensure
from shared.dsl.documents.compile import compile_pool
from shared.events import model as ev
from shared.events.beat import Beat
from shared.events.stamp import seconds
from shared.runtime.stores import pools
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, held_by, start
from tests.chaos.driving.support import POOL, TWO, Cluster, Process

SIZES = TWO
KNOWN_S = 4.0  # 2 on a machine that has nothing else to do
UNKNOWN_S = 10.0  # 6 on such a machine
TWO_WORKERS = f"""
apiVersion: noetl.io/v2
kind: Pool
metadata: {{ name: {POOL} }}
spec: {{ workers: 2, slots: 8 }}
"""


@pytest.fixture(autouse=True)
async def product_leases(bus: JetStreamBus) -> None:
    await ensure(bus, topology.wanted((POOL,)), apply=True)
    consumer = await bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.{POOL}")
    assert consumer["config"]["ack_wait"] == topology.COMMAND_LEASE_S * 1e9


async def test_a_worker_killed_is_taken_over_when_its_connection_closes(cluster: Cluster, bus: JetStreamBus) -> None:
    log = await Log.open(bus)
    async with pages.library("killed", ["red"], pages=12, delay_s=0.7) as library:
        holder = await held(log, bus, "killed", library)
        killed = time.time()
        await cluster.kill(holder)
        assert await claimed_again(log, "killed", killed) < KNOWN_S
        await log.until_over(["killed"])
        assert (Counter(library.asked) - Counter(library.all_pages)).total() <= 1
    await check(log, ["killed"])


async def test_a_worker_stopped_is_taken_over_when_it_is_silent_and_is_fenced(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log = await Log.open(bus)
    async with pages.library("stopped", ["red"], pages=20, delay_s=0.7) as library:
        holder = await held(log, bus, "stopped", library)
        stopped = time.time()
        cluster.processes[holder].send(signal.SIGSTOP)
        try:
            assert await claimed_again(log, "stopped", stopped) < UNKNOWN_S
        finally:
            cluster.processes[holder].send(signal.SIGCONT)
        await log.until_over(["stopped"])
        assert await held_by(log, "stopped") != holder
    await check(log, ["stopped"])


async def test_a_scheduler_that_was_away_takes_nobody_for_dead(cluster: Cluster, bus: JetStreamBus) -> None:
    """Every beat of these seconds reaches it at once, or never."""
    log = await Log.open(bus)
    async with pages.library("away", ["red"], pages=25, delay_s=0.7) as library:
        await held(log, bus, "away", library)
        said = {each.name: each.spoken() for each in cluster.of("scheduler")}
        for scheduler in cluster.of("scheduler"):
            scheduler.send(signal.SIGSTOP)
        before = len(library.asked)
        await log.until(lambda _: len(library.asked) > before + 9, "six seconds and more")
        for scheduler in cluster.of("scheduler"):
            scheduler.send(signal.SIGCONT)
        await log.until_over(["away"])
        assert len(claims(log, "away")) == 1
        for scheduler in cluster.of("scheduler"):
            assert "worker.gone" not in scheduler.said(said[scheduler.name])
    await check(log, ["away"])


@pytest.fixture
async def supervised(cluster: Cluster, bus: JetStreamBus) -> AsyncIterator[None]:
    """The pools service runs both workers."""
    for worker in cluster.of("worker"):
        await cluster.stop(worker.name)
    pool = compile_pool(TWO_WORKERS).document
    assert pool is not None
    await pools.apply(bus, pool, TWO_WORKERS, "test", time.time())
    service = Process("pools-g", {
        "NOETL_NATS_URL": cluster.nats.url, "NOETL_NATS_USER": "pools",
        "NOETL_NATS_PASSWORD": cluster.nats.passwords["pools"], "NOETL_LOGS": str(cluster.folder / "workers"),
        "NOETL_PASSWORDS": str(cluster.nats.folder / "passwords.json"),
    }, cluster.folder)
    service.start()
    try:
        await service.ready()
        yield
    finally:
        service.end()


@pytest.mark.usefixtures("supervised")
async def test_a_supervised_worker_killed_is_taken_over_at_once(bus: JetStreamBus) -> None:
    log = await Log.open(bus)
    async with pages.library("supervised", ["red"], pages=12, delay_s=0.7) as library:
        holder = await held(log, bus, "supervised", library)
        beats = await bus.kv_all(topology.WORKERS)
        pid = msgspec.json.decode(beats[f"{POOL}.{holder}"], type=Beat).pid
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        assert await claimed_again(log, "supervised", killed) < KNOWN_S
        await log.until_over(["supervised"])
    await check(log, ["supervised"])


async def held(log: Log, bus: JetStreamBus, run: str, library: pages.Library) -> str:
    """The worker that has the run and has said so."""
    await start(bus, "chaos/slow", {run: library.payload})
    await log.until(lambda _: len(library.asked) >= 4, "four pages asked for")
    return await held_by(log, run)


def claims(log: Log, run: str) -> list[float]:
    return [seconds(record.ts) for record, event in log.events(run) if isinstance(event, ev.StepStarted)]


async def claimed_again(log: Log, run: str, since: float) -> float:
    """Seconds until the next claim."""
    await log.until(lambda log: len(claims(log, run)) > 1, "another worker has the run")
    return claims(log, run)[1] - since
