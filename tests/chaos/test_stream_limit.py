"""Somebody gives the streams of the log a limit: nothing of it is deleted, those who write wait and say so, and all
continues when the limit is gone."""

from collections import Counter

from services.cli.stack.broker_files import limited
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import Cluster
from tests.support.waiting import until

SMALL = 3000
STREAMS = [topology.events_stream(partition) for partition in range(topology.PARTITIONS)]


async def limit(bus: JetStreamBus, size: int) -> None:
    for name in STREAMS:
        config = (await bus.requests.api(f"STREAM.INFO.{name}"))["config"]
        await bus.requests.api(f"STREAM.UPDATE.{name}", {**config, "max_bytes": size})


async def firsts(bus: JetStreamBus) -> list[int]:
    return [(await bus.requests.api(f"STREAM.INFO.{name}"))["state"]["first_seq"] for name in STREAMS]


async def test_a_limit_on_the_log_deletes_nothing_and_all_waits_until_it_is_gone(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log, runs = await Log.open(bus), [f"limited-{number}" for number in range(4)]
    said = {each.name: each.spoken() for each in cluster.processes.values()}
    async with pages.library("limited", ["red"], pages=12, delay_s=0.3) as library:
        await start(bus, "chaos/slow", dict.fromkeys(runs, library.payload))
        await log.until(lambda _: len(library.asked) >= 12, "three pages each")
        await limit(bus, SMALL)
        await start(bus, "chaos/slow", {"limited-later": library.payload})
        refused = "maximum bytes exceeded"
        await until(lambda: "".join(each.said(said[each.name]) for each in cluster.of("router")), "a router says so",
                    30, so=lambda words: refused in words)
        assert "its max_bytes allows" in await limited(bus)
        before = log.ends.copy()
        await limit(bus, -1)
        await log.until_over([*runs, "limited-later"])
        assert not set(before) & set(runs), "they had to wait"
        assert await firsts(bus) == [1] * len(STREAMS)
        assert Counter(library.asked).total() == 5 * len(library.all_pages)
    await check(log, [*runs, "limited-later"])
