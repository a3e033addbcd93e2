"""One sitting: our engine and a peer do the same work in turns, and every run is checked."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks import cpu, pages, report
from benchmarks.driver import END_TIMEOUT_S, Run
from benchmarks.engine import Engine
from benchmarks.peers.children import Driver
from benchmarks.peers.place import Peer, Place, Running
from benchmarks.stack import Stack
from benchmarks.workloads import PAGES, WORKLOADS, Workload

PYTHON_EXECUTIONS = 200  # of W2p: as many as of W2, for the steps of all peers are Python functions
STEPS_A_PAGE = 2  # fetch, store

BOTH = tuple(replace(each, executions=PYTHON_EXECUTIONS) if each.name == "W2p" else each for each in WORKLOADS)


class Side(Struct):
    """One of the two: its runs and the CPU seconds of its processes over them."""

    runs: list[Run] = []
    cpu_s: float = 0.0

    def figure(self, workload: Workload) -> float:
        return statistics.median(report.figure(workload, run) for run in self.runs)

    def cpu_us(self, workload: Workload) -> float:
        return self.cpu_s / (workload.units * len(self.runs)) * 1e6


class Sitting:
    def __init__(self, stack: Stack, peer: Peer, place: Place, running: Running) -> None:
        self._stack, self._peer, self._place, self._running = stack, peer, place, running
        self._runs = 0

    async def measure(self, workload: Workload, repeat: int, alone: bool) -> dict[str, Any]:
        """A warm-up of both, then turns."""
        less = scaled(workload, self._peer.scale)
        mine, theirs = Side(), Side()
        servers = {"nats-server": self._stack.nats_pid, "postgres": self._stack.postgres_pid}
        for turn in range(repeat + 1):
            for side, pids, run, work in (
                (mine, self._stack.engine.pids() | servers, self._engine, workload),
                (theirs, self._running.pids(), self._theirs, less),
            ):
                if side is mine and alone:
                    continue
                before = _used(pids)
                found = await run(work)
                await _settled(self._stack.engine)
                if turn:
                    side.runs.append(found)
                    side.cpu_s += _used(pids) - before
        return _entry((workload, mine), (less, theirs))

    async def _engine(self, workload: Workload) -> Run:
        return await self._with_pages(workload, self._stack.engine.run)

    async def _with_pages(self, workload: Workload, run: Any) -> Run:
        if workload.playbook != "pages":
            found: Run = await run(workload, workload.payload)
            return found
        self._runs += 1
        name = f"run-{self._runs}"
        async with pages.api() as url:
            found = await run(workload, {"api_url": url, "run": name})
        await pages.check_rows(self._stack.dsn, name)
        return found

    async def _theirs(self, workload: Workload) -> Run:
        return await self._with_pages(workload, self._ask)

    async def _ask(self, workload: Workload, payload: Mapping[str, Any]) -> Run:
        self._runs += 1
        name = workload.name
        job = {
            "shape": self._place.settings.get(name, self._peer.shapes[name]),
            "one_by_one": workload.one_by_one,
            **_work(workload, payload),
        }
        before = self._place.counted()
        start = time.perf_counter()
        answers = await asyncio.gather(*[
            driver.ask({**job, "id": f"{name}-{self._runs}-{n}", "executions": share}, END_TIMEOUT_S)
            for n, (driver, share) in enumerate(self._shares(workload))
        ])  # fmt: skip
        wall_s = time.perf_counter() - start
        self._running.check()
        steps = workload.units * (STEPS_A_PAGE if workload.playbook == "pages" else 1)
        if (done := self._place.counted() - before) != steps:
            raise SystemExit(f"{self._peer.name}, {name}: {done} steps were carried out, should be {steps}")
        return Run(wall_s, [took for answer in answers for took in answer["each_s"]], [])

    def _shares(self, workload: Workload) -> Iterator[tuple[Driver, int]]:
        drivers = self._running.drivers[: 1 if workload.one_by_one else workload.executions]
        for n, driver in enumerate(drivers):
            yield driver, len(range(n, workload.executions, len(drivers)))


def _work(workload: Workload, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The argument of an execution, and what has to come out: the sum of the numbers of its steps, or the pages."""
    if workload.playbook == "pages":
        return {"argument": {"url": payload["api_url"], "run": payload["run"]}, "result": PAGES}
    parts = workload.items if workload.playbook == "loop" else workload.steps
    return {"argument": parts, "result": sum(range(parts))}


def _used(pids: Mapping[str, int]) -> float:
    return sum(cpu.used_s(pid) for pid in pids.values())


async def _settled(engine: Engine) -> None:
    await engine.settled()
    await asyncio.sleep(0.2)


def _entry(mine: tuple[Workload, Side], theirs: tuple[Workload, Side]) -> dict[str, Any]:
    found: dict[str, Any] = {"unit": mine[0].unit, "engine": None, "ratio": None, "executions": theirs[0].executions}
    for name, (workload, side) in (("engine", mine), ("peer", theirs)):
        if side.runs:
            found[name] = round(side.figure(workload), 2)
            found[f"{name}_turns"] = [round(report.figure(workload, run), 2) for run in side.runs]
            found[f"{name}_cpu_us"] = round(side.cpu_us(workload))
    if found["engine"]:
        found["ratio"] = round(found["engine"] / found["peer"], 2)
    return found


def line(name: str, peer: str, sync: str, found: Mapping[str, Any]) -> str:
    engine = f"{found['engine']:>10.1f}" if found["engine"] else f"{'-':>10}"
    ratio = f"{found['ratio']:>8.2f}" if found["ratio"] else f"{'-':>8}"
    cost = f"{found.get('engine_cpu_us', '-'):>8} {found['peer_cpu_us']:>8}"
    return f"{name:5}{peer:10}{sync:9}{engine}{found['peer']:>10.1f}{ratio}   {found['unit']:13}{cost}"


HEAD = f"{'':5}{'peer':10}{'sync':9}{'engine':>10}{'peer':>10}{'ratio':>8}   {'':13}{'µs CPU per unit':>17}"


def written(result: Mapping[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def chosen(names: Sequence[str]) -> list[Workload]:
    return [each for each in BOTH if not names or each.name in names]


def scaled(workload: Workload, by: int) -> Workload:
    """The same with fewer executions, of which there is at least one."""
    return replace(workload, executions=max(1, workload.executions // by))
