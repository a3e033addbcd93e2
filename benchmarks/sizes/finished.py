"""`python -m benchmarks.sizes.finished`: many finished executions in the log and in the read model. How long each
service takes to be ready, how long `noetlctl get`, `describe` and one step take, and the memory of each, against an
empty stack."""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import msgspec
import uvloop
from msgspec import Struct

from benchmarks import cpu
from benchmarks.driver import Driver
from benchmarks.engine import ENDS
from benchmarks.processes import Service
from benchmarks.sizes.histories import Writer, recorded
from benchmarks.sizes.load import WATCH
from benchmarks.stack import SERVICES, Servers
from shared.bus import topology
from shared.events import subjects
from shared.runtime.control.partitions import Cursor

READY_S, GET_S, MEMORY = 5.0, 0.3, 1.5
STARTED_S = 300.0
LATENCIES = 50
ASKED = 5  # times for each command, after one that warms
CATCH_UP_S = 0.5
CURSORS = "SELECT coalesce(sum(seq), 0)::bigint FROM noetl.cursor"


class Found(Struct):
    """Seconds, milliseconds and megabytes of a stack with so many executions."""

    servers_s: float
    ready_s: dict[str, float]
    rss_mb: dict[str, float]
    step_ms: float
    commands_s: dict[str, float]


async def fill(folder: Path, count: int, at_once: int) -> None:
    """`count` copies of an execution that ran, in the log, and behind the cursors of router and scheduler; then the
    projector has all of them."""
    async with Servers(folder) as servers, servers.bus() as bus:
        services = await started(servers, SERVICES)
        driver = await Driver.open(servers.admin, WATCH, ENDS)
        await executed(driver, ["first-1"])
        await asyncio.sleep(2.0)  # the cursors are saved, nothing is under way
        await driver.close()
        await stopped(services)
        began = time.monotonic()
        last: dict[int, int] = {}
        writer = Writer(bus, await recorded(bus, "first-1"))
        for start in range(0, count, at_once):
            last = await writer.write([f"old-{n}" for n in range(start, min(start + at_once, count))])
        for partition, seq in last.items():
            for service in ("router", "scheduler"):
                await bus.kv_put(topology.CURSORS, f"{service}.{partition}", msgspec.json.encode(Cursor(seq)))
        print(f"{count:,} executions in the log: {time.monotonic() - began:.0f} s", flush=True)
        projector = await started(servers, ["projector"])
        began = time.monotonic()
        connection = await asyncpg.connect(servers.dsn)
        while (there := int(await connection.fetchval(CURSORS))) < sum(last.values()):
            projector[0].check()
            await asyncio.sleep(CATCH_UP_S)
        await connection.close()
        await stopped(projector)
        print(f"{there:,} records in the read model: {time.monotonic() - began:.0f} s", flush=True)


async def started(servers: Servers, names: Sequence[str]) -> list[Service]:
    services = [servers.service(name) for name in names]
    await asyncio.gather(*(service.start() for service in services))
    await asyncio.gather(*(service.ready(STARTED_S) for service in services))
    return services


async def stopped(services: Sequence[Service]) -> None:
    await asyncio.gather(*(service.stop() for service in services))


async def executed(driver: Driver, names: Sequence[str]) -> float:
    """Milliseconds of one step, from the request to the end."""
    encode = msgspec.json.encode
    starts = {name: (subjects.EXECUTE, encode({"path": "bench/noop", "execution_id": name})) for name in names}
    return statistics.median((await driver.one_by_one(starts)).each_s) * 1e3


async def measure(folder: Path, example: str, prefix: str) -> Found:
    began = time.monotonic()
    async with Servers(folder) as servers:
        servers_s = time.monotonic() - began
        services = [servers.service(name) for name in SERVICES]
        try:
            ready_s = await timed_start(services)
            driver = await Driver.open(servers.admin, WATCH, ENDS)
            await executed(driver, [f"{prefix}-warm-{n}" for n in range(LATENCIES)])
            step_ms = await executed(driver, [f"{prefix}-{n}" for n in range(LATENCIES)])
            await driver.close()
            rss_mb = {service.name: cpu.rss_mb(service.pid) for service in services}
            rss_mb["nats-server"] = cpu.rss_mb(servers.nats_pid)
            known = example or f"{prefix}-0"
            await asyncio.sleep(3.0)  # the read model has it
            commands_s = {
                " ".join(words): await asked(servers, [*words, *([known] if words[-1] != "executions" else [])])
                for words in (("get",), ("get", "executions"), ("describe",))
            }
        finally:
            await stopped(services)
    return Found(servers_s, ready_s, rss_mb, step_ms, commands_s)


async def timed_start(services: Sequence[Service]) -> dict[str, float]:
    """All at the same time, as `noetlctl up` does."""

    async def one(service: Service) -> float:
        began = time.monotonic()
        await service.start()
        await service.ready(STARTED_S)
        return time.monotonic() - began

    return dict(zip([service.name for service in services], await asyncio.gather(*map(one, services)), strict=True))


async def asked(servers: Servers, words: Sequence[str]) -> float:
    """Seconds of a whole command, the start of Python included."""
    environ = {
        **os.environ,
        "NOETL_NATS_URL": servers.nats.url, "NOETL_NATS_USER": "admin",
        "NOETL_NATS_PASSWORD": servers.nats.passwords["admin"], "NOETL_POSTGRES_DSN": servers.reader_dsn,
    }  # fmt: skip
    took = []
    for _ in range(ASKED + 1):
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.cli", *words, env=environ, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate()
        took.append(time.monotonic() - began)
        if process.returncode or words[-1] not in (*said.decode().split(), "executions"):
            raise SystemExit(f"noetlctl {' '.join(words)} ended with {process.returncode}: {said.decode()[-500:]}")
    return statistics.median(took[1:])


def told(title: str, found: Found) -> None:
    for what, values, unit in (("ready", found.ready_s, "s"), ("memory", found.rss_mb, "MB"),
                               ("commands", found.commands_s, "s")):  # fmt: skip
        print(f"{title:8}{what:10}" + ", ".join(f"{name} {value:.2f} {unit}" for name, value in values.items()))
    print(f"{title:8}servers {found.servers_s:.1f} s, one step {found.step_ms:.1f} ms", flush=True)


def missed(empty: Found, full: Found) -> list[str]:
    wrong = [f"{name} is ready after {took:.1f} s" for name, took in full.ready_s.items() if took > READY_S]
    wrong += [f"{name} takes {took:.2f} s" for name, took in full.commands_s.items()
              if name.startswith("get") and took > GET_S]  # fmt: skip
    wrong += [f"{name} has {full.rss_mb[name] / there:.1f} times the memory" for name, there in empty.rss_mb.items()
              if full.rss_mb[name] > MEMORY * there]  # fmt: skip
    return wrong


async def bench(args: argparse.Namespace) -> None:
    folder = args.folder or Path(tempfile.mkdtemp(prefix="noetl-finished-"))
    empty_folder = Path(tempfile.mkdtemp(prefix="noetl-empty-"))
    try:
        empty = await measure(empty_folder, "", "empty")
        told("empty", empty)
        if not (folder / "nats").exists():
            folder.mkdir(exist_ok=True)
            await fill(folder, args.executions, args.at_once)
        full = await measure(folder, f"old-{args.executions // 2}", f"new-{time.time():.0f}")
        told("full", full)
        print("\n".join(missed(empty, full)) or "all within their bounds")
    finally:
        shutil.rmtree(empty_folder, ignore_errors=True)
        if args.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes.finished", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--at-once", type=int, default=50_000, help="copies between two looks at the log")
    parser.add_argument("--folder", type=Path, help="keep it there, or take what is there: filling takes its time")
    uvloop.run(bench(parser.parse_args()))


if __name__ == "__main__":
    main()
