"""Two routers, two schedulers, two workers: the same log as one of each, also when one of two is lost."""

import asyncio
from collections import Counter

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.bus.membership import owner_of
from shared.bus.topology import PARTITIONS
from shared.events import model as ev
from shared.runtime.service.main import NOT_DRAINED, OK
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, held_by, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster

SIZES = TWO
EXECUTIONS, STEPS = 100, 10


async def begun(bus: JetStreamBus, tag: str) -> tuple[Log, list[str]]:
    """Chains, a third of whose steps are done."""
    log = await Log.open(bus)
    executions = [f"{tag}-{i}" for i in range(EXECUTIONS)]
    await start(bus, "chaos/chain", {key: {} for key in executions})
    await log.until(lambda log: log.steps_done >= EXECUTIONS * STEPS * 0.3, "a third of the steps")
    return log, executions


async def finish(cluster: Cluster, log: Log, executions: list[str]) -> None:
    await log.until_over(executions)
    await check(log, executions)
    await check_projection(cluster.dsn, log)


async def test_two_of_each_share_the_work(cluster: Cluster, bus: JetStreamBus) -> None:
    log, executions = await begun(bus, "shared")
    await finish(cluster, log, executions)
    leases = [record.lease for key in executions for record, _ in log.events(key) if record.lease]
    assert {lease.worker for lease in leases} == {"worker-g", "worker-h"}


@pytest.mark.parametrize("kind", ["router", "scheduler"])
async def test_partitions_of_a_killed_member_move_to_the_other(cluster: Cluster, bus: JetStreamBus, kind: str) -> None:
    lost, survivor = cluster.of(kind)
    owners = [owner_of(partition, (lost.name, survivor.name)) for partition in range(PARTITIONS)]
    spoken = survivor.spoken()
    log, executions = await begun(bus, f"moved-{kind}")
    await cluster.kill(lost.name)
    await finish(cluster, log, executions)
    assert survivor.said(spoken).count('"partition.owned"') == owners.count(lost.name) == 2


@pytest.mark.parametrize("kind", ["router", "scheduler", "worker"])
async def test_a_process_asked_to_stop_drains(cluster: Cluster, bus: JetStreamBus, kind: str) -> None:
    log, executions = await begun(bus, f"drained-{kind}")
    assert await cluster.stop(f"{kind}-g") == OK
    assert len(log.ends) < EXECUTIONS, "stopped too late to say anything"
    await finish(cluster, log, executions)


async def test_a_worker_finishes_what_it_holds_before_it_stops(cluster: Cluster, bus: JetStreamBus) -> None:
    log, run = await Log.open(bus), "drained-run"
    async with pages.library(run, ["red"], pages=6, delay_s=0.5) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        assert await cluster.stop(await held_by(log, run)) == OK
        await log.poll()
        assert ev.StepDone in {type(event) for _, event in log.events(run)}
        await log.until_over([run])
        await check(log, [run])
        assert Counter(library.asked) == Counter(library.all_pages)


async def test_a_worker_out_of_time_hands_its_run_back(cluster: Cluster, bus: JetStreamBus) -> None:
    """It says so by its exit code; the other one goes on after the last finished task."""
    log, run = await Log.open(bus), "handed-back"
    workers = [worker.name for worker in cluster.of("worker")]
    await asyncio.gather(*(cluster.restart(worker, NOETL_DRAIN_S="0.5") for worker in workers))
    async with pages.library(run, ["red"], pages=8, delay_s=0.4) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        await log.until(lambda _: len(library.asked) >= 3, "three pages asked for")
        holder = await held_by(log, run)
        assert await cluster.stop(holder) == NOT_DRAINED
        await log.until_over([run])
        await check(log, [run])
        assert (Counter(library.asked) - Counter(library.all_pages)).total() <= 1
        assert {holder, await held_by(log, run)} == set(workers)
    await cluster.restart(await held_by(log, run))
