"""`python -m benchmarks.loops`: one parallel loop of 100,000 iterations. Each must run exactly once; what is measured
is how many end per second, the most memory each service takes, and what the loop costs other executions."""

import argparse
import asyncio
import statistics
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks import cpu
from benchmarks.driver import Driver
from benchmarks.engine import ENDS
from benchmarks.profiles import write_summary
from benchmarks.stack import SERVICES, Stack
from shared.bus import jetstream, topology
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import readable

OTHERS = 100  # executions of one step, one at a time, before the loop
EVERY_S = 0.1  # between them, before the loop and meanwhile: who comes to a warm process is served sooner
MOST_MB = 512.0
SUBJECTS = (f"{subjects.EVENTS}.*.*.router",)
PARTITIONS = 4


class Others:
    """Executions of one step, one at a time: how long each takes."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._n = driver, 0

    async def one(self) -> float:
        self._n += 1
        request = {"path": "bench/noop", "execution_id": f"other-{self._n}"}
        run = await self._driver.one_by_one({f"other-{self._n}": (subjects.EXECUTE, msgspec.json.encode(request))})
        return run.each_s[0] * 1000

    async def before(self) -> list[float]:
        return await self.while_running(asyncio.create_task(asyncio.sleep(OTHERS * EVERY_S)))

    async def while_running(self, work: "asyncio.Task[Any]") -> list[float]:
        found = []
        while not work.done():
            found.append(await self.one())
            await asyncio.wait({work}, timeout=EVERY_S)
        return found


class Peak:
    """The most memory each process was seen with."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids, self.mb = pids, dict.fromkeys(pids, 0.0)

    async def watch(self) -> None:
        while True:
            for name, pid in self._pids.items():
                self.mb[name] = max(self.mb[name], cpu.rss_mb(pid))
            await asyncio.sleep(EVERY_S)


async def loop_of(driver: Driver, items: int) -> float:
    """Seconds from the request to the end of the execution."""
    request = {"path": "bench/range", "payload": {"n": items}, "execution_id": f"loop-{items}"}
    run = await driver.burst({f"loop-{items}": (subjects.EXECUTE, msgspec.json.encode(request))})
    return run.wall_s


async def check(stack: Stack, items: int) -> None:
    """What the log says: every index ended once, and the loop with all of them."""
    execution_id = f"loop-{items}"
    partition = subjects.partition_of(execution_id, PARTITIONS)
    bus = await jetstream.connect(stack.admin.url, user=stack.admin.user, password=stack.admin.password)
    try:
        filters = subjects.written(partition, execution_id, ("iteration", "scheduler"))
        messages = await bus.read(topology.events_stream(partition), filters)
    finally:
        await bus.close()
    ended: Counter[int] = Counter()
    counts = []
    for _, record in readable(messages, PARTITIONS):
        for event in record.events:
            if isinstance(event, ev.IterationDone) and record.lease is not None:
                ended[record.lease.index] += 1
            elif isinstance(event, ev.LoopDone):
                counts.append((event.count, event.failed))
    if sorted(ended) != list(range(items)) or set(ended.values()) != {1} or counts != [(items, 0)]:
        twice = sum(times > 1 for times in ended.values())
        sys.exit(f"{len(ended)} of {items} iterations ended, {twice} more than once; loop.done says {counts}")


def told(what: str, found: list[float]) -> str:
    ordered = sorted(found)
    return f"{what}: p50 {statistics.median(ordered):.1f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.1f} ms " \
           f"({len(ordered)} executions)"


async def bench(items: int, profiled: list[str]) -> None:
    files = {name: Path(f"profile-loops-{name}.prof") for name in profiled}
    async with Stack("default", files) as stack:
        mine, others = [await Driver.open(stack.admin, SUBJECTS, ENDS) for _ in range(2)]
        side = Others(others)
        before = await side.before()
        pids = stack.engine.pids() | {"nats-server": stack.nats_pid}
        used = {name: cpu.used_s(pid) for name, pid in pids.items()}
        peak = Peak(stack.engine.pids())
        watch = asyncio.create_task(peak.watch())
        work = asyncio.create_task(loop_of(mine, items))
        meanwhile = await side.while_running(work)
        watch.cancel()
        used = {name: cpu.used_s(pid) - used[name] for name, pid in pids.items()}
        for service in stack.engine.services:
            service.check()
        await check(stack, items)
        print(f"{items:,} iterations, each once: {items / await work:,.0f} iterations/s")
        print("memory: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in peak.mb.items()))
        print("cpu: " + ", ".join(f"{name} {seconds / items * 1e6:.0f} µs" for name, seconds in used.items()))
        print(told("one step before", before), told("one step meanwhile", meanwhile), sep="\n")
        print(f"ratio of the medians: {statistics.median(meanwhile) / statistics.median(before):.2f}")
        for driver in (mine, others):
            await driver.close()
    for stats in files.values():
        print(f"profile: {write_summary(stats)}")
    if max(peak.mb.values()) > MOST_MB:
        sys.exit(f"a service took more than {MOST_MB:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--profile", choices=SERVICES, action="append", default=[])
    args = parser.parse_args()
    uvloop.run(bench(args.items, args.profile))


if __name__ == "__main__":
    main()
