"""The demand of a pool with a long loop and a second execution, against what the log says is outstanding:
python -m tests.chaos.demand --items 100000"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.e2e.pools.demand import NOOP, Outstanding, ask, demand, is_near, start
from tests.support.pool_ctl import Ctl, connected, stack_in
from tests.support.terminal import say
from tests.support.waiting import until

POOL = "steady"
BESIDE = 1_000
SLOTS = 64
EVERY_S = 0.5
BEGIN_S = 60.0


class Look(NamedTuple):
    """`before` and `after`: what the log said just before and just after the answer; `begun`: iterations so far."""

    at: float
    before: int
    found: int
    after: int
    begun: int

    @property
    def off(self) -> float:
        """By what part of the log's figure the answer is off."""
        low, high = sorted((self.before, self.after))
        return max(0.0, low - self.found, self.found - high) / max(high, 1)


async def look(ctl: Ctl, log: Outstanding, began: float) -> Look:
    before = await log.count()
    found = await asyncio.to_thread(demand, ctl, POOL)
    return Look(time.monotonic() - began, before, found, await log.count(), log.begun)


async def wait(ctl: Ctl, executions: tuple[str, ...], waiting: int) -> None:
    """Until both are with the schedulers, and known to the pools service."""
    async with connected(ctl) as bus:
        log = Outstanding(bus, executions, ctl.up.context["partitions"])
        await until(log.count, "both wait", BEGIN_S, so=lambda found: found == waiting, every_s=EVERY_S)
    await until(lambda: demand(ctl, POOL), "both are wanted", BEGIN_S, so=lambda found: found == waiting)


async def watch(ctl: Ctl, executions: tuple[str, ...]) -> list[Look]:
    """All looks until nothing is outstanding."""
    async with connected(ctl) as bus:
        log = Outstanding(bus, executions, ctl.up.context["partitions"])
        began = time.monotonic()
        looks = [await look(ctl, log, began)]
        while looks[-1].after:
            await asyncio.sleep(EVERY_S)
            looks.append(await look(ctl, log, began))
    return looks


def measure(ctl: Ctl, items: int, workers: int) -> list[Look]:
    """The loop begins with no worker; `noetlctl` runs in this process, so no event loop may run around it."""
    ctl.apply(POOL, workers=0, slots=SLOTS)
    executions = tuple(start(ctl, POOL, count, tool=NOOP) for count in (items, BESIDE))
    asyncio.run(wait(ctl, executions, min(items, 1000) + BESIDE))
    say(f"  with no worker: {ask(ctl, POOL)[1]}")
    assert ctl("pool", "scale", POOL, str(workers), "--no-wait")[0] == 0
    looks = asyncio.run(watch(ctl, executions))
    for execution in executions:
        ctl.completed(execution)
    return looks


def judge(looks: list[Look], items: int) -> int:
    """How many answers are wrong. Once nothing more begins, what is left ends in a second or so, and an answer that is
    half a second old says little of it: these are shown by themselves."""
    steady = [each for each in looks if each.begun < items + BESIDE]
    ending = [each for each in looks[len(steady):] if each.after]
    wrong = [each for each in steady if not is_near(each.found, each.before, each.after)]
    took = looks[-1].at
    say(f"  {items:,} iterations beside {BESIDE:,} in {took:.0f} s, {(items + BESIDE) / took:,.0f} a second")
    for word, some in (("", steady), (" of the last ones", ending)):
        offs = sorted(each.off for each in some) or [0.0]
        say(f"  {len(some)} answers{word}: off by {offs[len(offs) // 2]:.1%} in the middle, {offs[-1]:.1%} at most")
    for each in wrong:
        say(f"  * after {each.at:.1f} s: the log {each.before} to {each.after}, the answer {each.found}")
    return len(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    wanted = parser.parse_args()
    say(f"{wanted.items:,} items (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)")
    with tempfile.TemporaryDirectory(prefix="noetl-demand-") as folder, stack_in(Path(folder)) as ctl:
        looks = measure(ctl, wanted.items, wanted.workers)
        code, out, err = ctl("verify", "--all")
        say(f"  verify: {(out or err).strip().splitlines()[-1]}")
    sys.exit(1 if judge(looks, wanted.items) or code else 0)


if __name__ == "__main__":
    main()
