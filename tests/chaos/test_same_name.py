"""Two processes under one name: the second ends and says why, and what the first does is not disturbed."""

import signal
from collections import Counter

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, held_by, start
from tests.chaos.driving.support import Cluster, Process

TAKEN = "alive under the name"


def twin(cluster: Cluster, name: str) -> Process:
    """Of a process that runs, with a log of its own."""
    folder = cluster.folder / "twins"
    folder.mkdir(exist_ok=True)
    return Process(name, cluster.environ(name), folder)


@pytest.mark.parametrize("kind", ["worker", "router", "scheduler"])
async def test_the_second_of_a_name_ends_and_the_first_continues(
    cluster: Cluster, bus: JetStreamBus, kind: str
) -> None:
    log, run = await Log.open(bus), f"twin-{kind}"
    second = twin(cluster, f"{kind}-g")
    async with pages.library(run, ["red"], pages=10, delay_s=0.5) as library:
        await start(bus, "chaos/slow", {run: library.payload})
        await log.until(lambda _: len(library.asked) >= 3, "three pages asked for")
        second.start()
        try:
            assert await second.ended() == 1
        finally:
            second.end()
        assert TAKEN in second.said()
        assert "service.ready" not in second.said()
        await log.until_over([run])
        assert Counter(library.asked) == Counter(library.all_pages)
    assert cluster.processes[f"{kind}-g"].running
    await check(log, [run])


async def test_a_worker_that_was_stopped_while_another_took_its_name_ends(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log, first, second = await Log.open(bus), cluster.processes["worker-g"], twin(cluster, "worker-g")
    async with pages.library("stopped", ["red"], pages=14, delay_s=0.7) as library:
        await start(bus, "chaos/slow", {"stopped": library.payload})
        await log.until(lambda _: len(library.asked) >= 3, "three pages asked for")
        first.send(signal.SIGSTOP)
        second.start()
        try:
            await second.ready()
            await log.until(lambda _: len(library.asked) >= 8, "the other one has the run")
            first.send(signal.SIGCONT)
            assert await first.ended() == 1
            assert TAKEN in first.said()
            beats = await bus.kv_all(topology.WORKERS)
            assert "default.worker-g" in beats
            await log.until_over(["stopped"])
            assert (Counter(library.asked) - Counter(library.all_pages)).total() <= 1
            assert await held_by(log, "stopped") == "worker-g"
        finally:
            if first.running:
                first.send(signal.SIGCONT)
            second.end()
    await check(log, ["stopped"])
