"""Router and scheduler, and once the broker too, are killed while very many executions wait: what is loaded again is
loaded some at a time, new executions get on meanwhile, and in the end every old one goes on. A broker that is silent
meanwhile is not asked for all of them again and again."""

import asyncio
import os
import signal
import time

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from shared.events import subjects
from shared.events.request import Control
from tests.chaos.driving.log import Log, start
from tests.chaos.driving.support import Cluster
from tests.support.suite.long import long
from tests.support.waiting import until

LIVE = 1500
BURST = 250
NEW_S = 20.0  # for one execution of one step, on a machine that is busy with everything at once
RECOVERED_S = 120.0
CURSORS_S = 2.5  # they are saved once a second
CONTROL = ("router-g", "scheduler-g")
SILENT_S = 8.0  # over the 5 s after which a question counts as not answered


def waits(cluster: Cluster) -> int:
    return sum(cluster.processes[name].said().count('"execution.waits"') for name in CONTROL)


async def fill(bus: JetStreamBus, log: Log, keys: list[str]) -> None:
    def waiting(log: Log) -> int:
        return sum(isinstance(event, ev.TaskWaiting) for key in keys for _, event in log.events(key))

    for first in range(0, len(keys), BURST):
        burst = keys[first : first + BURST]
        await start(bus, "chaos/approval", {key: {} for key in burst})
        await log.until(lambda log: waiting(log) >= first + len(burst), "they wait")  # noqa: B023
    await asyncio.sleep(CURSORS_S)


async def go_on(bus: JetStreamBus, keys: list[str]) -> None:
    told = [msgspec.json.encode(Control(key, name="go")) for key in keys]
    await asyncio.gather(*[await bus.send(subjects.SIGNAL, each) for each in told])


@pytest.mark.parametrize("broker", [False, long(True)], ids=["control", "control and broker"])
async def test_many_live_executions_are_loaded_again_without_a_collapse(
    cluster: Cluster, bus: JetStreamBus, broker: bool
) -> None:
    log = await Log.open(bus)
    old = [f"approval-{'nats' if broker else 'control'}-{i}" for i in range(LIVE)]
    await fill(bus, log, old)
    before = waits(cluster)
    for name in CONTROL:
        await cluster.kill(name)
    if broker:
        await cluster.kill_nats()
        await asyncio.to_thread(cluster.nats.start)
    for name in CONTROL:
        cluster.processes[name].start()

    new, began = f"new-{broker}", time.monotonic()
    await start(bus, "chaos/chain", {new: {}})
    await log.until_over([new], NEW_S + RECOVERED_S / 4)
    first_new = time.monotonic() - began
    await cluster.heal()
    await start(bus, "chaos/chain", {f"{new}-again": {}})
    await log.until_over([f"{new}-again"], NEW_S)

    await go_on(bus, old)
    await log.until_over(old, RECOVERED_S)
    assert {tuple(log.ends[key]) for key in old} == {("completed",)}
    assert waits(cluster) - before < LIVE / 10, f"the first new execution took {first_new:.1f} s"


async def test_a_broker_that_falls_silent_while_they_are_loaded_is_asked_few_times(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log = await Log.open(bus)
    old = [f"approval-silent-{i}" for i in range(LIVE)]
    await fill(bus, log, old)
    before, scheduler = waits(cluster), cluster.processes["scheduler-g"]
    await cluster.kill("scheduler-g")
    spoken = scheduler.spoken()
    scheduler.start()
    await until(lambda: scheduler.said(spoken), "a partition is owned", RECOVERED_S,
                so=lambda said: '"partition.owned"' in said, every_s=0.005)
    os.kill(cluster.nats.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(SILENT_S)
    finally:
        os.kill(cluster.nats.pid, signal.SIGCONT)
    await cluster.heal()
    await go_on(bus, old)
    await log.until_over(old, RECOVERED_S)
    assert waits(cluster) - before < LIVE / 10
