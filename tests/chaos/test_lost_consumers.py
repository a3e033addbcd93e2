"""A consumer that somebody deletes under a live stream is made again: nothing waits for ever, nothing is done twice."""

from collections import Counter

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.streams import differences
from shared.events import model as ev
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import POOL, TWO, Cluster

SIZES = TWO
AGAIN_S = 40.0  # 10 on a machine that has nothing else to do; the leases play no part in it


async def delete(bus: JetStreamBus, stream: str, consumer: str) -> None:
    assert (await bus.requests.api(f"CONSUMER.DELETE.{stream}.{consumer}"))["success"]


async def test_the_consumer_of_a_pool_comes_again_and_what_is_held_is_not_repeated(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log, later = await Log.open(bus), [f"later-{number}" for number in range(4)]
    said = {each.name: each.spoken() for each in cluster.of("scheduler")}
    async with pages.library("held", ["red"], pages=24, delay_s=0.7) as library:
        await start(bus, "chaos/slow", {"held": library.payload})
        await log.until(lambda _: len(library.asked) >= 3, "three pages asked for")
        await delete(bus, topology.COMMANDS, POOL)
        async with pages.library("later", ["red"], pages=2, delay_s=0.1) as short:
            await start(bus, "chaos/slow", dict.fromkeys(later, short.payload))
            await log.until_over(later, AGAIN_S)
        await log.until_over(["held"])
        assert Counter(library.asked) == Counter(library.all_pages)
    claims = [event for _, event in log.events("held") if isinstance(event, ev.StepStarted)]
    assert len(claims) == 1
    words = "".join(each.said(said[each.name]) for each in cluster.of("scheduler"))
    assert 1 <= words.count("queue.consumer_lost") <= 2, "once for each scheduler at most"
    await check(log, ["held", *later])


async def test_the_consumer_of_requests_comes_again_where_it_stood(bus: JetStreamBus) -> None:
    log = await Log.open(bus)
    before, later = [f"before-{number}" for number in range(5)], [f"request-{number}" for number in range(5)]
    async with pages.library("requests", ["red"], pages=1, delay_s=0.0) as library:
        await start(bus, "chaos/slow", dict.fromkeys(before, library.payload))
        await log.until_over(before)
        await delete(bus, topology.REQUESTS, "router")
        await start(bus, "chaos/slow", dict.fromkeys(later, library.payload))
        await log.until_over(later, AGAIN_S)
        assert len(library.asked) == len(before) + len(later)
    found = await bus.requests.api(f"CONSUMER.INFO.{topology.REQUESTS}.router")
    assert found["config"]["opt_start_seq"] > 1
    assert found["delivered"]["consumer_seq"] < found["delivered"]["stream_seq"], "not all of them came again"
    missing, drifts = await differences(bus, topology.wanted((POOL,)))
    assert (missing, [each for each in drifts if each.name.startswith(topology.REQUESTS)]) == ([], [])
    await check(log, [*before, *later])
