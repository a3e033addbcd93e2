"""Processes that were stopped for so long that others took over, and then go on: they do no harm."""

import asyncio
import signal
from collections import Counter

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, held_by, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster

SIZES = TWO
EXECUTIONS, STEPS = 100, 10
LINGER_S = 2.5  # a zombie that goes on would call again in this time


async def test_a_worker_held_up_in_a_call_does_not_go_on_with_a_run_it_has_lost(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log, run = await Log.open(bus), "zombie"
    async with pages.library(run, ["red"], pages=8, delay_s=0.7) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        await log.until(lambda _: len(library.asked) >= 2, "two pages asked for")
        holder = await held_by(log, run)
        cluster.processes[holder].send(signal.SIGSTOP)
        await log.until_over([run])
        assert await held_by(log, run) != holder
        seen = len(log.events(run))
        cluster.processes[holder].send(signal.SIGCONT)
        await log.until(lambda log: len(log.events(run)) > seen, "the zombie's late words")
        await asyncio.sleep(LINGER_S)
        await check(log, [run])
        assert late_words(log, run, holder)
        assert (Counter(library.asked) - Counter(library.all_pages)).total() <= 1
    await check_projection(cluster.dsn, log)


async def test_a_worker_does_not_begin_what_it_was_given_while_it_was_stopped(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    """Commands lie in its socket, their leases run out, the other worker does them all."""
    log, runs = await Log.open(bus), [f"socket-{i}" for i in range(24)]
    async with pages.library("socket", ["red"], pages=1, delay_s=0.05) as library:
        stopped = cluster.of("worker")[0]
        stopped.send(signal.SIGSTOP)
        await start(bus, "chaos/slow", dict.fromkeys(runs, library.payload))
        await log.until_over(runs)
        assert any(count > 1 for count in deliveries(log, runs)), "the stopped worker was given nothing"
        stopped.send(signal.SIGCONT)
        await asyncio.sleep(LINGER_S)
        await check(log, runs)
        assert len(library.asked) == len(runs)
    await check_projection(cluster.dsn, log)


@pytest.mark.parametrize("kind", ["router", "scheduler"])
async def test_a_member_that_was_silent_and_comes_back_decides_nothing_twice(
    cluster: Cluster, bus: JetStreamBus, kind: str
) -> None:
    log, executions = await Log.open(bus), [f"silent-{kind}-{i}" for i in range(EXECUTIONS)]
    stopped = cluster.of(kind)[0]
    await start(bus, "chaos/chain", {key: {} for key in executions})
    await log.until(lambda log: log.steps_done >= EXECUTIONS * STEPS * 0.2, "a fifth of the steps")
    stopped.send(signal.SIGSTOP)
    half = (len(executions) + len(log.ends)) // 2
    await log.until(lambda log: len(log.ends) >= half, "the other one takes over")
    stopped.send(signal.SIGCONT)
    await log.until_over(executions)
    await asyncio.sleep(LINGER_S)
    await check(log, executions)
    await check_projection(cluster.dsn, log)


def late_words(log: Log, run: str, holder: str) -> list[ev.Event]:
    """What the first holder said after the end of the execution."""
    events = log.events(run)
    end = next(i for i, (_, event) in enumerate(events) if isinstance(event, ev.PlaybookProcessed))
    return [event for record, event in events[end:] if record.lease is not None and record.lease.worker == holder]


def deliveries(log: Log, runs: list[str]) -> list[int]:
    """How often the command of each run had been handed out when it was done."""
    done = [record for run in runs for record, event in log.events(run) if isinstance(event, ev.StepDone)]
    return [record.lease.epoch[1] for record in done if record.lease is not None]
