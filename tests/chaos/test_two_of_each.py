"""Two routers, two schedulers, two workers: the same log as one of each, also when one of two is lost."""

import asyncio
import signal
from collections import Counter

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.bus.membership import owner_of
from shared.bus.topology import PARTITIONS
from shared.events import model as ev
from tests.chaos import pages
from tests.chaos.conftest import TWO
from tests.chaos.log import Log, check, start
from tests.chaos.projection import check_projection
from tests.chaos.support import LEASE_S, Cluster

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
    process = cluster.of(kind)[0]
    process.send(signal.SIGTERM)
    assert await process.ended() == 0, process.tail()
    assert len(log.ends) < EXECUTIONS, "stopped too late to say anything"
    await finish(cluster, log, executions)


async def test_a_worker_finishes_what_it_holds_before_it_stops(cluster: Cluster, bus: JetStreamBus) -> None:
    log, run = await Log.open(bus), "drained-run"
    async with pages.library(run, ["red"], pages=6, delay_s=0.5) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        holder = cluster.processes[await held_by(log, run)]
        holder.send(signal.SIGTERM)
        assert await holder.ended() == 0, holder.tail()
        await log.poll()
        assert ev.StepDone in {type(event) for _, event in log.events(run)}
        await log.until_over([run])
        await check(log, [run])
        assert Counter(library.asked) == Counter(library.all_pages)


async def test_a_worker_that_was_held_up_over_its_lease_does_no_harm(cluster: Cluster, bus: JetStreamBus) -> None:
    """Stopped in a call, its run taken over and ended by another, then let go on: a zombie."""
    log, run = await Log.open(bus), "zombie"
    async with pages.library(run, ["red"], pages=8, delay_s=0.7) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        await log.until(lambda _: len(library.asked) >= 2, "two pages asked for")
        holder = await held_by(log, run)
        zombie = cluster.processes[holder]
        zombie.send(signal.SIGSTOP)
        before = len(library.asked)
        await log.until_over([run], within_s=LEASE_S + 60)
        seen = len(log.events(run))
        zombie.send(signal.SIGCONT)
        await log.until(lambda log: len(log.events(run)) > seen, "the zombie's late words")
        await asyncio.sleep(2.5)  # a zombie that goes on would call again in this time
        await check(log, [run])
        assert late_words(log, run, holder)
        repeated = Counter(library.asked) - Counter(library.all_pages)
        assert repeated.total() <= 1, (before, library.asked)
    await check_projection(cluster.dsn, log)


def late_words(log: Log, run: str, holder: str) -> list[ev.Event]:
    """What the first holder said after the end of the execution."""
    events = log.events(run)
    end = next(i for i, (_, event) in enumerate(events) if isinstance(event, ev.PlaybookProcessed))
    return [event for record, event in events[end:] if record.lease is not None and record.lease.worker == holder]


async def held_by(log: Log, run: str) -> str:
    """The worker that has the run."""

    def holders(log: Log) -> list[str]:
        return [record.lease.worker for record, event in log.events(run) if isinstance(event, ev.StepStarted)]

    await log.until(lambda log: bool(holders(log)), "a worker has the run")
    return holders(log)[-1]
