"""The services on three brokers that are killed, stopped and restarted under load, and what each fault costs:
python -m tests.chaos.cluster --kills 20 --stops 5 --seed N"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from shared.bus.jetstream import JetStreamBus
from shared.runtime.service import logging
from tests.chaos.cluster.faults import Faults, draw
from tests.chaos.cluster.load import Load
from tests.chaos.cluster.recovery import SLOW_S, costs, table
from tests.chaos.cluster.system import ThreeBrokers
from tests.chaos.driving.ledger import check_loop
from tests.chaos.storm.findings import Findings
from tests.chaos.storm.ledger import Ledger, ledger
from tests.chaos.storm.watch import Watch
from tests.support.servers.nats_cluster import NODES
from tests.support.terminal import say

REST_S = 4.0      # between two faults
CALM_S = 60.0     # in which whatever a fault held up must have ended
STILL_S = 60.0    # in which nothing has happened: nothing will
POLL_S = 0.2


class Run:
    def __init__(self, system: ThreeBrokers, wanted: argparse.Namespace, bus: JetStreamBus, outside: Ledger) -> None:
        self.system, self.wanted, self.bus, self.outside = system, wanted, bus, outside
        self.watch = Watch(bus)
        self.load = Load(bus, self.watch, outside, wanted.rate, wanted.loop)
        self.faults = Faults(system.brokers, bus, say if wanted.verbose else lambda _: None)
        self.found = Findings()
        self.over = 0.0

    async def live(self) -> None:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.watch.run())
            work = [group.create_task(each(stop)) for each in (self.load.chains, self.load.loop_after_loop)]
            await asyncio.sleep(REST_S)
            streams = (await self.bus.requests.api("STREAM.NAMES"))["streams"]
            for planned in draw(self.wanted.seed, self.wanted.kills, self.wanted.stops, streams):
                await self.faults.carry_out(planned)
                await self._calm()
            for number in range(NODES if self.wanted.roll else 0):
                await self.faults.restart(number)
                await self._calm()
            self.over = time.time()
            stop.set()
            await self._settle(work)
            watching.cancel()

    async def _calm(self) -> None:
        """Whoever was held up gets to the end, with no help."""
        await asyncio.sleep(REST_S)
        until = time.monotonic() + CALM_S
        while (waiting := self.load.waiting(time.time() - SLOW_S)) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        if waiting:
            fault = self.faults.made[-1]
            self.found.problem(f"{CALM_S:.0f} s after {fault.kind} {fault.what}, {len(waiting)} wait", *waiting[:1])
        if ended := self.system.ended():
            raise SystemExit("\n".join(ended))

    async def _settle(self, work: list[asyncio.Task[None]]) -> None:
        """Until everything has ended, the last loop too, or nothing goes on any more."""
        began = seen_at = time.monotonic()
        seen = -1
        while self.watch.ended(self.load.asked) < len(self.load.asked) and time.monotonic() < seen_at + STILL_S:
            await asyncio.sleep(POLL_S)
            if (now := self.watch.records + len(self.outside.calls)) != seen:
                seen, seen_at = now, time.monotonic()
        for task in work:
            task.cancel()
        self.found.row("seconds until the last execution ended", round(time.monotonic() - began, 1))

    async def judge(self) -> None:
        ends, found = self.watch.ends, self.found
        found.row("executions asked for", len(self.load.asked))
        found.row("ended as", Counter(ends.get(each, "not ended") for each in self.load.asked).most_common())
        for each in self.load.asked:
            if ends.get(each) != "completed":
                found.problem(f"{each} is {ends.get(each, 'not over')}", each)
        for each in self.watch.twice:
            found.problem(f"{each} ended twice", each)
        await self._loops()
        await found.queue(self.bus)
        await found.verify(self.bus, self.system.dsn, self.load.asked)
        found.words(self.system.processes)
        seen = await self.load.seen()
        took = sorted(each.ended - each.asked for each in seen)
        found.row("an execution took, median and longest, s", f"{took[len(took) // 2]:.2f}, {took[-1]:.1f}")
        for line in table(self.faults.made, costs(self.faults.made, self.over, seen)):
            say(f"  {line}")

    async def _loops(self) -> None:
        again = 0
        for name, calls in self.load.calls().items():
            missing = set(range(self.wanted.loop)) - calls.keys()
            if missing:
                self.found.problem(f"{name}: {len(missing)} iterations made no call", name)
            again += calls.total() - len(calls)
            try:
                check_loop(name, await self.watch.history(name), self.wanted.loop, reported_once=False)
            except (AssertionError, ValueError) as error:
                self.found.problem(f"{name}: {error}", name)
        self.found.row("loops, iterations each", f"{len(self.load.loops)}, {self.wanted.loop}")
        self.found.row("calls in the ledger, of them made again", f"{len(self.outside.calls)}, {again}")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Brokers of a cluster are killed and stopped while work goes on.")
    parser.add_argument("--kills", type=int, default=20, help="of leaders of streams")
    parser.add_argument("--stops", type=int, default=5, help="of leaders of streams, for 10 to 30 s each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=8.0, help="executions of ten steps a second")
    parser.add_argument("--loop", type=int, default=5000, help="iterations of the loops that run beside them")
    parser.add_argument("--no-roll", dest="roll", action="store_false", help="restart no brokers in the end")
    parser.add_argument("--keep", type=Path, help="a folder for the logs of services and brokers")
    parser.add_argument("--verbose", "-v", action="store_true", help="say each fault")
    return parser.parse_args(arguments)


async def on_three_brokers(wanted: argparse.Namespace) -> Findings:
    async with ThreeBrokers() as system:
        def workers() -> Mapping[int, str]:
            return {process.pid: process.name for process in system.of("worker")}

        async with ledger(workers) as outside:
            bus = await system.connect()
            run = Run(system, wanted, bus, outside)
            try:
                await run.live()
                await run.judge()
            finally:
                if wanted.keep is not None:
                    keep(system, wanted.keep)
                await bus.close()
            run.found.tell()
            return run.found


def keep(system: ThreeBrokers, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for process in system.processes.values():
        (folder / process.log.name).write_text(process.said())
    for number, node in enumerate(system.brokers.nodes):
        (folder / f"broker-{number}.log").write_text((node.folder / "nats.log").read_text(errors="replace"))


def main() -> None:
    wanted = options()
    logging.configure("error")
    say(f"seed {wanted.seed}, {wanted.kills} kills, {wanted.stops} stops, {wanted.rate:g} executions a second "
        f"(load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)")
    found = asyncio.run(on_three_brokers(wanted))
    sys.exit(1 if found.problems else 0)


if __name__ == "__main__":
    main()
