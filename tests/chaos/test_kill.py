"""Kill -9 of each process in the middle of work: everything ends, nothing is decided or done twice."""

from collections import Counter
from contextlib import suppress

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.errors import Unavailable
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import Cluster
from tests.support.suite.long import long

EXECUTIONS, STEPS = 200, 10
BOOKS = ("red", "blue")
VICTIMS = ("router", "scheduler", "worker", "projector", "nats")
TOGETHER = ("nats-router", "nats-scheduler", "nats-worker")


async def kill(cluster: Cluster, victims: str) -> None:
    for victim in victims.split("-"):
        await (cluster.kill_nats() if victim == "nats" else cluster.kill(f"{victim}-g"))


async def start_again(cluster: Cluster, bus: JetStreamBus, victims: str) -> None:
    """The broker last. What died with it comes back under another name, as a new pod would."""
    extra = {"NOETL_INSTANCE": f"again-{victims}"} if victims in TOGETHER else {}
    for victim in reversed(victims.split("-")):
        await (cluster.start_nats_again(bus) if victim == "nats" else cluster.start_again(f"{victim}-g", **extra))


@pytest.mark.parametrize("victim", [*VICTIMS, *map(long, TOGETHER)])
async def test_chains_finish_although_a_process_is_killed(cluster: Cluster, bus: JetStreamBus, victim: str) -> None:
    log = await Log.open(bus)
    queue, spoken = await cluster.queue_created(bus), cluster.processes["scheduler-g"].spoken()
    executions = [f"chain-{victim}-{i}" for i in range(EXECUTIONS)]
    await start(bus, "chaos/chain", {key: {} for key in executions})
    await log.until(lambda log: log.steps_done >= EXECUTIONS * STEPS * 0.3, "a third of the steps")
    await kill(cluster, victim)
    with suppress(Unavailable):  # the log is away too
        await log.poll()
    assert len(log.ends) < EXECUTIONS, "killed too late to say anything"
    await start_again(cluster, bus, victim)
    await log.until_over(executions)
    await check(log, executions)
    await check_projection(cluster.dsn, log)
    if "nats" in victim:
        assert await cluster.queue_created(bus) != queue
    if victim == "nats":
        assert "queue.lost" in cluster.processes["scheduler-g"].said(spoken)


@pytest.mark.parametrize("victim", [*map(long, VICTIMS), "nats-worker"])
async def test_pages_go_on_where_they_were_although_a_process_is_killed(
    cluster: Cluster, bus: JetStreamBus, victim: str
) -> None:
    await pages.prepare(bus, cluster.dsn)
    log, run = await Log.open(bus), f"pages-{victim}"
    async with pages.library(run, BOOKS) as library:
        await start(bus, "chaos/pages", {run: library.payload})
        await log.until(lambda _: len(library.asked) >= len(library.all_pages) * 0.3, "a third of the pages")
        await kill(cluster, victim)
        before = len(library.asked)
        assert before < len(library.all_pages) * 0.9, "killed too late to say anything"
        with suppress(Unavailable):
            await log.poll()
        fetched, stored = (pages.finished(log, run, BOOKS, mark) for mark in ("fetched", "stored"))
        assert fetched, "killed too early to say anything"
        await start_again(cluster, bus, victim)
        await log.until_over([run])
        await check(log, [run])
        assert set(library.asked[before:]).isdisjoint(fetched)
        rows = await library.stored(cluster.dsn)
        assert {page: rows[page] for page in stored} == dict.fromkeys(stored, 1)
        repeats_at_most(library, rows, 1 if "worker" in victim else 0)
    await check_projection(cluster.dsn, log)


def repeats_at_most(library: pages.Library, rows: Counter[pages.Page], allowed: int) -> None:
    """Every page was fetched and stored; of each book at most the task in flight was called again."""
    asked = Counter(library.asked)
    assert asked.keys() == rows.keys() == library.all_pages
    for book in library.books:
        again = [page for page in library.all_pages if page.book == book and asked[page] + rows[page] > 2]
        assert sum(asked[page] + rows[page] - 2 for page in again) <= allowed, again
