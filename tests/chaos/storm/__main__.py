"""A storm of faults over mixed work: python -m tests.chaos.storm --minutes 20 --faults 300 --seed N"""

import argparse
import asyncio
import contextlib
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from shared.bus.jetstream import JetStreamBus
from shared.runtime.service import logging
from tests.chaos.storm.checks import Problem, check_calls_made, check_ends, repeated, went_on
from tests.chaos.storm.faults import Storm, draw
from tests.chaos.storm.findings import Findings
from tests.chaos.storm.ledger import Ledger, ledger
from tests.chaos.storm.load import Load
from tests.chaos.storm.report import MAX_STORIES, Clocks, shown, story
from tests.chaos.storm.system import System
from tests.chaos.storm.watch import Watch
from tests.chaos.storm.work import Work
from tests.support.terminal import say

SETTLE_S = 120.0   # in which every execution must have ended once nothing is wrong any more


class Run:
    """One storm, from the first request to the verdict."""

    def __init__(self, system: System, wanted: argparse.Namespace, bus: JetStreamBus, outside: Ledger) -> None:
        self.system, self.wanted, self.bus, self.outside = system, wanted, bus, outside
        self.watch = Watch(bus)
        self.work = Work(bus, outside, self.watch, wanted.seed, wanted.rate)
        victims = sorted(system.processes)
        self.storm = Storm(
            system, bus, draw(wanted.seed, wanted.minutes * 60, wanted.faults, victims, wanted.nodes),
            say if wanted.verbose else lambda _: None,
        )
        self.load = Load(system)
        self.found = Findings()

    async def live(self) -> None:
        self.clocks = Clocks(time.time(), time.monotonic())
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(each.run()) for each in (self.watch, self.load)]
            until = self.clocks.monotonic + self.wanted.minutes * 60
            working = group.create_task(self.work.go_on(until))
            await self.storm.rage()
            await asyncio.sleep(max(0.0, until - time.monotonic()))
            await self.system.calm()
            await self._settle(working)
            for helper in helpers:
                helper.cancel()
        await self.system.leave_alone()

    async def _settle(self, working: asyncio.Task[None]) -> None:
        """Every execution ends, reruns included."""
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await asyncio.wait({working})
                while self.watch.ended(self.work.jobs) < len(self.work.jobs):  # noqa: ASYNC110  the system's work
                    await asyncio.sleep(0.2)
        working.cancel()
        self.found.row("seconds until the last execution ended", round(time.monotonic() - began, 1))

    # The verdict

    async def judge(self) -> None:
        jobs, ends, calls, faults = self.work.jobs, self.watch.ends, self.outside.calls, self.storm.made
        self._faults()
        self.found.problems += [*check_ends(jobs, ends, self.watch.twice), *check_calls_made(jobs, ends, calls)]
        self.found.row("executions asked for", len(jobs))
        self.found.row("ended as planned", Counter(ends[each] for each in jobs if each in ends).most_common())
        self.found.row("calls in the ledger", len(calls))
        for what, found in (("calls made again", repeated(calls, faults)), ("went on", went_on(calls, faults))):
            unexplained = [each for each in found if each.by is None]
            by = Counter(each.by.kind for each in found if each.by is not None)
            self.found.row(f"{what}, by the fault that explains it", f"{len(found)}: {by.most_common()}")
            self.found.row(f"{what}, explained by nothing", len(unexplained))
            self.found.problems += [Problem(f"{what}: {shown(each, self.clocks)}", (each.second.execution,))
                              for each in unexplained]
        await self.found.queue(self.bus)
        await self.found.verify(self.bus, self.system.dsn, jobs)
        self.found.words(self.system.processes)
        self.found.rows += self.load.rows(time.monotonic() - self.clocks.monotonic, len(jobs), self.work.held_back_s)

    def _faults(self) -> None:
        made = self.storm.made
        self.found.row("faults", len(made))
        for kind, count in Counter(fault.kind for fault in made).most_common():
            victims = Counter(fault.victim.partition("-")[0] for fault in made if fault.kind == kind)
            self.found.row(f"  {kind}", f"{count} ({', '.join(f'{n} × {v}' for v, n in victims.most_common())})")
        if len(made) < self.wanted.faults:
            self.found.problems.append(Problem(f"{len(made)} faults were made, not {self.wanted.faults}"))
        self.found.row("processes started again", self.system.starts)
        self.found.row("ends of processes that nobody caused", len(self.system.ended))
        self.found.rows += [("  ", each) for each in self.system.ended]
        self.found.problems += [Problem(f"it ended by itself: {each}") for each in self.system.surprising()]

    async def tell(self) -> None:
        self.found.tell()
        concerned = dict.fromkeys(each for problem in self.found.problems for each in problem.executions)
        url, password = self.system.admin_url, self.system.nats.passwords["admin"]
        admin = {"NOETL_NATS_URL": url, "NOETL_NATS_USER": "admin", "NOETL_NATS_PASSWORD": password}
        for execution_id in list(concerned)[:MAX_STORIES]:
            calls = self.outside.of(execution_id)
            for line in await story(execution_id, self.watch, calls, self.storm.made, self.clocks, admin):
                say(line)
        if self.found.problems:
            say(f"again: {again(self.wanted)}")


def again(wanted: argparse.Namespace) -> str:
    options = " ".join(f"--{name} {value}" for name, value in vars(wanted).items() if name not in ("verbose", "keep"))
    return f"python -m tests.chaos.storm {options}"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Faults of all kinds at random while mixed work goes on.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="of the broker")
    parser.add_argument("--rate", type=float, default=4.0, help="executions a second")
    parser.add_argument("--keep", type=Path, help="a folder for the logs of the services")
    parser.add_argument("--verbose", "-v", action="store_true", help="say each fault")
    return parser.parse_args(arguments)


def system_of(nodes: int) -> System:
    if nodes == 1:
        return System()
    from tests.chaos.storm.cluster import ClusterSystem

    return ClusterSystem()


async def storm(wanted: argparse.Namespace) -> list[Problem]:
    """What is wrong after it; empty when nothing is."""
    async with system_of(wanted.nodes) as system:
        def workers() -> Mapping[int, str]:
            return {process.pid: process.name for process in system.of("worker")}

        async with ledger(workers) as outside:
            bus = await system.connect()
            run = Run(system, wanted, bus, outside)
            try:
                await run.live()
                await run.judge()
                await run.tell()
            finally:
                if wanted.keep is not None:
                    keep(system, wanted.keep)
                await bus.close()
            return run.found.problems


def keep(system: System, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for process in system.processes.values():
        (folder / process.log.name).write_text(process.said())


def main() -> None:
    wanted = options()
    logging.configure("error")
    say(f"{again(wanted)}  (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)")
    problems = asyncio.run(storm(wanted))
    say(f"  peak memory of the harness: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
