"""Services whose wall clock is wrong or jumps: refused at the start; what runs goes by the broker's time."""

import asyncio
import time

import pytest

from services.cli.doctor import clock
from services.cli.doctor.target import Patient
from shared.bus.jetstream import JetStreamBus
from shared.dsl.documents.compile import compile_document
from shared.engine.automation.schedules import execution_id
from shared.events import model as ev
from shared.runtime.service.main import WRONG_CLOCK
from shared.runtime.service.settings import Settings
from shared.runtime.stores import schedules as store_schedules
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import Cluster, Process
from tests.support.suite.long import long

HOUR_S = 3600.0
KINDS = ("router", "scheduler", "worker")
LEAST_S = 2 + 0.9 * (1 + 6) + 2 * 1  # what the playbook waits; pauses before attempts have a jitter of 10 %
AT_MOST_S = 90.0
LOOSE = {"NOETL_MAX_SKEW_S": "86400"}
SOURCE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: NAME}
spec: {playbook: {path: chaos/chain}, every: 2s, catch_up: all}
"""


async def begin_anew(cluster: Cluster, kinds: tuple[str, ...], ahead_s: float) -> list[Process]:
    """With a clock of their own each, whatever it says."""
    found = [process for kind in kinds for process in cluster.of(kind)]
    for process in found:
        await cluster.stop(process.name)
        process.set_clock(ahead_s)
        process.start(**LOOSE)
    for process in found:
        await process.ready()
    return found


async def put_right(cluster: Cluster, processes: list[Process]) -> None:
    for process in processes:
        process.set_clock(0.0)
        await cluster.restart(process.name)


async def runs_as_it_should(log: Log, name: str, began: float) -> None:
    await log.until_over([name], AT_MOST_S)
    took = time.monotonic() - began
    await check(log, [name])
    assert took >= LEAST_S, "a wait was cut short"


async def told(cluster: Cluster, bus: JetStreamBus, names: list[str], ahead_s: float) -> None:
    """By doctor, once each process has looked at its clock again."""
    patient = Patient(bus, Settings(nats_url=cluster.nats.url))
    wanted = [f"{name} is 60 min {'ahead of' if ahead_s > 0 else 'behind'} the broker" for name in names]
    async with asyncio.timeout(AT_MOST_S):
        while True:
            (found,) = await clock.look(patient)
            if all(each in found.found for each in wanted):
                return
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("ahead_s", [HOUR_S, long(-HOUR_S)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("bus")
async def test_a_service_whose_clock_is_an_hour_off_is_refused_at_its_start(
    cluster: Cluster, kind: str, ahead_s: float
) -> None:
    (process,) = cluster.of(kind)
    await cluster.stop(process.name)
    said = process.spoken()
    process.set_clock(ahead_s)
    process.start()
    try:
        assert await process.ended() == WRONG_CLOCK
    finally:
        process.end()
        process.set_clock(0.0)
    text = process.said(said)
    assert f"{'ahead of' if ahead_s > 0 else 'behind'} the broker's by 36" in text
    assert "NOETL_MAX_SKEW_S" in text
    assert "chrony" in text
    process.start()
    await process.ready()


@pytest.mark.parametrize("ahead_s", [HOUR_S, long(-HOUR_S)])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_execution_goes_by_the_brokers_clock_whatever_a_service_has(
    cluster: Cluster, bus: JetStreamBus, kind: str, ahead_s: float
) -> None:
    log, name = await Log.open(bus), f"off-{kind}-{'ahead' if ahead_s > 0 else 'behind'}"
    wrong = await begin_anew(cluster, (kind,), ahead_s)
    try:
        began = time.monotonic()
        await start(bus, "chaos/clocks", {name: {}})
        await runs_as_it_should(log, name, began)
    finally:
        await put_right(cluster, wrong)


@pytest.mark.parametrize("step_s", [HOUR_S, long(-HOUR_S)])
async def test_a_step_of_every_clock_in_the_middle_of_waits_changes_nothing(
    cluster: Cluster, bus: JetStreamBus, step_s: float
) -> None:
    log, name = await Log.open(bus), f"step-{'ahead' if step_s > 0 else 'behind'}"
    processes = await begin_anew(cluster, KINDS, 0.0)
    try:
        began = time.monotonic()
        await start(bus, "chaos/clocks", {name: {}})
        for count, process in enumerate(processes, 1):  # one after the other, each while something waits
            await log.until(
                lambda log, n=count: sum(isinstance(e, ev.TaskWaiting) for _, e in log.events(name)) >= n, "it waits"
            )
            process.set_clock(step_s)
        await runs_as_it_should(log, name, began)
        await told(cluster, bus, [f"{process.kind} {process.name}" for process in processes], step_s)
    finally:
        await put_right(cluster, processes)


@pytest.mark.parametrize("ahead_s", [HOUR_S, long(-HOUR_S)])
async def test_a_schedule_fires_by_the_brokers_clock(cluster: Cluster, bus: JetStreamBus, ahead_s: float) -> None:
    log, name = await Log.open(bus), f"fires-{'ahead' if ahead_s > 0 else 'behind'}"
    source = SOURCE.replace("NAME", name)
    document = compile_document(source, kind="Schedule").document
    assert document is not None
    wrong = await begin_anew(cluster, ("scheduler",), ahead_s)
    try:
        began = int(await bus.time())
        await store_schedules.apply(bus, document, source, began)
        due = [at for at in range(began + 1, began + 6) if at % 2 == 0]
        await log.until_over([execution_id(name, at) for at in due])
        assert await bus.time() >= due[-1], "it fired before its time"
        await store_schedules.pause(bus, name, True, int(await bus.time()))
    finally:
        await put_right(cluster, wrong)
