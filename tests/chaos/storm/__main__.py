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

from services.cli.verify.checker import Checker, Summary, everything
from services.cli.verify.read_model import ReadModel
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.runtime.service import logging
from tests.chaos.driving.support import POOL
from tests.chaos.storm.checks import Problem, check_calls_made, check_ends, repeated, said, went_on
from tests.chaos.storm.faults import Storm, draw
from tests.chaos.storm.ledger import Ledger, ledger
from tests.chaos.storm.load import Load
from tests.chaos.storm.report import MAX_STORIES, Clocks, shown, story
from tests.chaos.storm.system import System
from tests.chaos.storm.watch import Watch
from tests.chaos.storm.work import Work
from tests.support.terminal import say

SETTLE_S = 120.0   # in which every execution must have ended once nothing is wrong any more
PROJECT_S = 120.0
MAX_SHOWN = 20


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
        self.problems: list[Problem] = []
        self.rows: list[tuple[str, object]] = []

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
        self.row("seconds until the last execution ended", round(time.monotonic() - began, 1))

    def row(self, what: str, figure: object) -> None:
        self.rows.append((what, figure))

    # The verdict

    async def judge(self) -> None:
        jobs, ends, calls, faults = self.work.jobs, self.watch.ends, self.outside.calls, self.storm.made
        self._faults()
        self.problems += [*check_ends(jobs, ends, self.watch.twice), *check_calls_made(jobs, ends, calls)]
        self.row("executions asked for", len(jobs))
        self.row("ended as planned", Counter(ends[each] for each in jobs if each in ends).most_common())
        self.row("calls in the ledger", len(calls))
        for what, found in (("calls made again", repeated(calls, faults)), ("went on", went_on(calls, faults))):
            unexplained = [each for each in found if each.by is None]
            by = Counter(each.by.kind for each in found if each.by is not None)
            self.row(f"{what}, by the fault that explains it", f"{len(found)}: {by.most_common()}")
            self.row(f"{what}, explained by nothing", len(unexplained))
            self.problems += [Problem(f"{what}: {shown(each, self.clocks)}", (each.second.execution,))
                              for each in unexplained]
        await self._queue()
        await self._verify()
        self._words()
        self.rows += self.load.rows(time.monotonic() - self.clocks.monotonic, len(jobs), self.work.held_back_s)

    def _faults(self) -> None:
        made = self.storm.made
        self.row("faults", len(made))
        for kind, count in Counter(fault.kind for fault in made).most_common():
            victims = Counter(fault.victim.partition("-")[0] for fault in made if fault.kind == kind)
            self.row(f"  {kind}", f"{count} ({', '.join(f'{n} × {v}' for v, n in victims.most_common())})")
        if len(made) < self.wanted.faults:
            self.problems.append(Problem(f"{len(made)} faults were made, not {self.wanted.faults}"))
        self.row("processes started again", self.system.starts)
        self.row("ends of processes that nobody caused", len(self.system.ended))
        self.rows += [("  ", each) for each in self.system.ended]
        self.problems += [Problem(f"it ended by itself: {each}") for each in self.system.surprising()]

    async def _queue(self) -> None:
        """Nothing is in it once nothing is due: what is left there, nobody will take."""
        asked = {"subjects_filter": ">"}
        stream = (await self.bus.requests.api(f"STREAM.INFO.{topology.COMMANDS}", asked))["state"]
        consumer = await self.bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.{POOL}")
        said = {name: consumer[name] for name in ("num_pending", "num_ack_pending", "num_redelivered")}
        self.row("commands left in the queue", f"{stream['messages']}; its consumer says {said}")
        self.problems += [Problem(f"left in the queue: {each}; the consumer says {said}, {consumer['delivered']}, "
                                  f"{consumer['ack_floor']}") for each in sorted(stream.get("subjects") or ())]

    async def _verify(self) -> None:
        async with ReadModel(self.system.dsn) as model:
            summary: Summary = await everything(Checker(self.bus, topology.PARTITIONS, model, PROJECT_S))
        self.row("verify", summary.words().most_common())
        self.row("read model", summary.projections().most_common())
        for verdict in summary.listed.values():
            found = "; ".join(map(str, verdict.violations[:3]))
            self.problems.append(Problem(f"verify: {verdict.execution_id} {verdict.path} is {verdict.verdict}: "
                                         f"{verdict.reason} {found}", (verdict.execution_id,)))
        for execution_id, counts in summary.known.items():
            if counts.word == "unfinished" and execution_id not in self.work.jobs:
                self.problems.append(Problem(f"{execution_id} has not ended", (execution_id,)))
            if counts.projection != "same":
                self.problems.append(Problem(f"the read model of {execution_id} is {counts.projection}"))
        self.row("dead letters", dead := await self.bus.last_seq(topology.DEAD))
        if dead:
            self.problems.append(Problem(f"{dead} dead letters"))

    def _words(self) -> None:
        problems, warnings = said({name: process.said() for name, process in self.system.processes.items()})
        self.problems += problems
        self.row("warnings in the logs", warnings.most_common(12))

    async def tell(self) -> None:
        for what, figure in self.rows:
            say(f"  {what:<50} {figure}")
        say(f"{len(self.problems)} problems:" if self.problems else "  nothing is wrong")
        for problem in self.problems[:MAX_SHOWN]:
            say(f"  * {problem.what}")
        concerned = dict.fromkeys(each for problem in self.problems for each in problem.executions)
        url, password = self.system.admin_url, self.system.nats.passwords["admin"]
        admin = {"NOETL_NATS_URL": url, "NOETL_NATS_USER": "admin", "NOETL_NATS_PASSWORD": password}
        for execution_id in list(concerned)[:MAX_STORIES]:
            calls = self.outside.of(execution_id)
            for line in await story(execution_id, self.watch, calls, self.storm.made, self.clocks, admin):
                say(line)
        if self.problems:
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
            return run.problems


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
