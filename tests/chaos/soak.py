"""The long form of `test_loops`: python -m tests.chaos.soak --kills 50 --loops 20 --iterations 500 --seed N"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from tests.chaos.driving import ledger
from tests.chaos.driving.killing import Kill, kill_at_random
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster
from tests.support.terminal import say

WITHIN_S = 600.0
Row = tuple[str, object]


async def soak(cluster: Cluster, wanted: argparse.Namespace) -> Iterator[Row]:
    """What was checked, with its figures. A check that does not hold raises."""
    bus = await cluster.connect()
    try:
        await ledger.prepare(bus, cluster.dsn)
        log, began = await Log.open(bus), time.monotonic()
        loops = ledger.payloads(f"soak-{wanted.seed}", wanted.loops, wanted.iterations)
        await start(bus, "chaos/loop", loops)
        total = wanted.loops * wanted.iterations
        kills = await kill_at_random(cluster, log, wanted.seed, wanted.kills, total, lambda: log.iterations_done)
        await log.until_over(list(loops), WITHIN_S)
        took = time.monotonic() - began
        await check(log, list(loops))
        figures = await ledger.check_calls(cluster.dsn, log, list(loops), wanted.iterations, kills)
        await check_projection(cluster.dsn, log)
        return table(log, kills, figures, took)
    finally:
        await bus.close()


def table(log: Log, kills: list[Kill], figures: ledger.Figures, took: float) -> Iterator[Row]:
    events = sum(len(record.events) for entries in log.histories.values() for _, record in entries)
    yield "kills", ", ".join(f"{count} × {kind}" for kind, count in sorted(Counter(k.kind for k in kills).items()))
    yield "seconds from the first request to the last end", round(took, 1)
    yield "executions completed, each ended once", len(log.ends)
    yield "loop.done once each, after the last iteration", len(log.ends)
    yield "iterations started once and ended once", figures.iterations
    yield "rows in the ledger", figures.rows
    yield "calls made again", figures.duplicates
    yield "in flight when their worker was killed", figures.in_flight
    yield "calls made again that no kill explains", figures.beyond
    yield "histories in which verify finds nothing wrong", len(log.histories)
    yield "events compared with the read model", events


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill processes at random while loops run.")
    for name, default in (("kills", 50), ("loops", 20), ("iterations", 500), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    wanted = parser.parse_args()
    say(" ".join(f"{name}={value}" for name, value in vars(wanted).items()))
    with Cluster(TWO) as cluster:
        try:
            rows = list(asyncio.run(soak(cluster, wanted)))
        except BaseException:
            say(cluster.tails())
            raise
    for what, figure in rows:
        say(f"  {what:<50} {figure}")


if __name__ == "__main__":
    main()
