"""`python -m benchmarks`: the engine beside the relay, on one server, in turns."""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks import cpu, pages, report, tables
from benchmarks.driver import Run
from benchmarks.engine import Engine
from benchmarks.profiles import write_summary
from benchmarks.relay import Relay
from benchmarks.stack import SERVICES, Stack
from benchmarks.workloads import WORKLOADS, Workload
from shared.runtime.embedded.nats_server import find_binary

RESULTS = Path(__file__).parent / "results"
IDLE_S = 10.0


class Meter:
    """CPU seconds of some processes, summed over turns."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids, self._total = pids, dict.fromkeys(pids, 0.0)

    def read(self) -> dict[str, float]:
        return {name: cpu.used_s(pid) for name, pid in self._pids.items()}

    def add(self, before: Mapping[str, float]) -> None:
        for name, now in self.read().items():
            self._total[name] += now - before[name]

    def per_unit(self, units: int) -> dict[str, float]:
        """Microseconds."""
        return {name: round(total / units * 1e6, 1) for name, total in self._total.items()}


class Bench:
    """One server with one sync setting, the relay and the engine on it."""

    def __init__(self, stack: Stack, relay: Relay, engine: Engine, repeat: int) -> None:
        self._stack, self._relay, self._engine, self._repeat = stack, relay, engine, repeat
        self._runs = 0

    async def measure(self, workload: Workload) -> dict[str, Any]:
        """A warm-up of both, then turns: relay, engine, relay, engine …"""
        servers = {"nats-server": self._stack.nats_pid, "postgres": self._stack.postgres_pid}
        meters = {"engine": Meter(self._engine.pids() | servers)}
        if workload.relay:
            meters["relay"] = Meter(self._relay.pids() | {"nats-server": self._stack.nats_pid})
        runs: dict[str, list[Run]] = {"engine": [], "relay": []}
        foreign, sizes = [], []
        for turn in range(self._repeat + 1):
            for who in reversed(meters):
                before = meters[who].read()
                run = await (self._engine_run if who == "engine" else self._relay_run)(workload)
                foreign.append(await self._engine.settled())
                if turn:
                    runs[who].append(run)
                    meters[who].add(before)
            sizes.append(await tables.size(self._stack.dsn))
        found = report.entry(workload, runs["engine"], runs["relay"])
        found["cpu_us"] = {who: meter.per_unit(workload.units * self._repeat) for who, meter in meters.items()}
        found["table_bytes"] = round((sizes[-1] - sizes[0]) / (workload.units * self._repeat))
        found["foreign_cores"] = round(statistics.median(foreign), 2)
        return found

    async def _relay_run(self, workload: Workload) -> Run:
        return await self._relay.run(
            workload.executions, steps=workload.steps, items=workload.items, one_by_one=workload.one_by_one
        )

    async def _engine_run(self, workload: Workload) -> Run:
        if workload.playbook != "pages":
            return await self._engine.run(workload, workload.payload)
        self._runs += 1
        run = f"run-{self._runs}"
        async with pages.api() as url:
            found = await self._engine.run(workload, {"api_url": url, "run": run})
        await pages.check_rows(self._stack.dsn, run)
        return found

    async def idle(self) -> dict[str, float]:
        """CPU of each service in percent of one core, with nothing to do."""
        await self._engine.settled()
        used = await self._engine.cpu(IDLE_S)
        return {name: round(seconds / IDLE_S * 100, 2) for name, seconds in used.items()}


async def one_sync(sync: str, chosen: Sequence[Workload], args: argparse.Namespace) -> dict[str, Any]:
    folder = (RESULTS / args.out).parent
    profiled = {name: folder / f"profile-{sync}-{name}.prof" for name in args.profile}
    found: dict[str, Any] = {}
    async with Stack(sync, profiled) as stack:
        async with Relay(stack.admin) as relay:
            bench = Bench(stack, relay, stack.engine, args.repeat)
            print(f"sync: {sync}\n{report.HEAD}", flush=True)
            for workload in chosen:
                found[workload.name] = await bench.measure(workload)
                show(workload, found[workload.name])
        if sync == "default" and not args.no_idle:
            found["idle"] = await bench.idle()
            print(report.idle_line(found["idle"]), flush=True)
    for stats in profiled.values():
        print(f"profile: {write_summary(stats)}")
    return found


def show(workload: Workload, found: Mapping[str, Any]) -> None:
    print(report.line(workload, found), report.cpu_line(found), report.table_line(found), sep="\n", flush=True)
    if found["foreign_cores"] > report.FOREIGN_CORES:
        print(report.foreign_line(found), flush=True)


async def bench(args: argparse.Namespace) -> None:
    file = RESULTS / args.out
    file.parent.mkdir(parents=True, exist_ok=True)
    chosen = [w for w in WORKLOADS if not args.only or w.name in args.only]
    result: dict[str, Any] = {"machine": report.machine(), "versions": report.versions(find_binary())}
    if args.sync in ("default", "both"):
        result |= await one_sync("default", chosen, args)
    if args.sync in ("always", "both"):
        result["sync_always"] = await one_sync("always", [w for w in chosen if w.relay], args)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    print(f"written: {file}")


def names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        found = text.split(",")
        if unknown := set(found) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
        return found

    return parse


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", type=names([w.name for w in WORKLOADS]), default=[], metavar="W2,W3")
    parser.add_argument("--repeat", type=int, default=3, help="measured turns of each workload (3)")
    parser.add_argument("--sync", choices=["default", "always", "both"], default="both")
    parser.add_argument("--profile", type=names(SERVICES), default=[], metavar="router,worker")
    parser.add_argument("--no-idle", action="store_true", help="leave the idle measurement out")
    parser.add_argument(
        "--out",
        default="latest.json",
        help="where the figures go, relative to benchmarks/results (latest.json); profiles beside it",
    )
    uvloop.run(bench(parser.parse_args()))


if __name__ == "__main__":
    main()
