"""Cities, hotels, rooms by pages (V10 §11) against a server that fails, killed in the middle: the right rows, and no
page is fetched again once its task is in the log."""

import time
from collections import Counter
from typing import NamedTuple

import pytest

from shared.answers.history.history import Key
from shared.answers.verify.reports import accepted
from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from shared.events.stamp import seconds
from tests.chaos.driving import ledger
from tests.chaos.driving.hotels import CITIES, Chain, Page, hotel_chain
from tests.chaos.driving.killing import Kill, cut_off
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster
from tests.support.suite.long import long

SIZES = TWO
SEED = 11
CALLS, LOOPS = "chaos/cities", "chaos/levels"  # the levels as playbooks that call playbooks, and as loops in loops


class Finished(NamedTuple):
    """A page whose task the log calls done."""

    execution: str
    key: Key
    at: float


@pytest.mark.parametrize(("path", "victim"), [(CALLS, "worker"), (LOOPS, "worker"), long(LOOPS, "scheduler")])
async def test_three_levels_give_the_right_rows_although_a_process_is_killed(
    cluster: Cluster, bus: JetStreamBus, path: str, victim: str
) -> None:
    await ledger.prepare(bus, cluster.dsn)
    log, run = await Log.open(bus), f"{path.replace('/', '-')}-{victim}"
    async with hotel_chain(cluster.dsn, run, SEED) as chain:
        await start(bus, path, {run: chain.payload})
        await log.until(lambda _: chain.fetched() >= len(chain.pages) * 0.5, "half of the pages")
        await cluster.kill(f"{victim}-g")
        kills = [Kill(f"{victim}-g", time.time())]
        assert chain.fetched() < len(chain.pages) * 0.9, "killed too late to say anything"
        await cluster.start_again(f"{victim}-g")
        await log.until_over([run])
        executions = list(log.histories)
        assert len(executions) == (1 + CITIES if path == CALLS else 1)
        await check(log, executions)
        stored = await chain.stored(cluster.dsn)
    assert len(stored) == len(set(stored))
    assert set(stored) == chain.rows()
    check_requests(chain, log, kills)
    await check_projection(cluster.dsn, log)


def finished(log: Log) -> dict[Page, Finished]:
    found: dict[Page, Finished] = {}
    for execution, entries in log.histories.items():
        for key, held in accepted(entries).items():
            for _, record in held.kept:
                for event in record.events:
                    if isinstance(event, ev.TaskDone) and "fetched" in event.set_iter:
                        page = Page(**event.set_iter["fetched"])
                        assert page not in found, f"{page} is done twice"
                        found[page] = Finished(execution, key, seconds(record.ts))
    return found


def check_requests(chain: Chain, log: Log, kills: list[Kill]) -> None:
    done = finished(log)
    assert done.keys() == chain.pages
    pages = [asked for asked in chain.asked if asked.page.page]
    assert any(not asked.answered for asked in pages), "the server never failed"
    assert [asked for asked in pages if asked.at > done[asked.page].at] == [], "asked for after its task was done"
    answers = Counter(asked.page for asked in pages if asked.answered)
    again = Counter[tuple[str, Key]]()
    for page, count in answers.items():
        again[done[page].execution, done[page].key] += count - 1
    for execution, entries in log.histories.items():
        for key, cut in cut_off(entries, kills).items():
            assert again.pop((execution, key), 0) <= len(cut), f"{execution} {key}"
    assert again.total() == 0
