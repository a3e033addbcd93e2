"""`python -m benchmarks.recovery`: many executions wait; router and scheduler (or the broker too) are killed and come
back on a machine that others keep busy. What is measured: how long nothing is recorded, when the services say that
they are ready, how often a load had to wait, what new executions notice meanwhile, and that every old one ends."""

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks import cpu
from benchmarks.engine import register_playbooks
from benchmarks.processes import Service
from shared.bus import jetstream, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.events import subjects
from shared.events.request import Control, Request
from shared.runtime.embedded.nats_server import NatsServer

POOL = "default"
CONTROL = ("router", "scheduler")
BURST = 500  # requests handed in at a time
EVERY_S = 0.25  # between new executions while the old ones are loaded
STARTED_S, RECOVERED_S = 900.0, 900.0
WATCH_S = 20.0  # new executions are started for at least so long
BUSY = "while True: pass"


class Watch:
    """The records as they are stored: who waits, who is over, and the longest time without any."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.over: dict[str, float] = {}
        self.gap_s, self._last = 0.0, time.monotonic()

    def begin(self) -> None:
        self.gap_s, self._last = 0.0, time.monotonic()

    def seen(self, subject: bytes, _reply: bytes, _header: bytes, data: bytes) -> None:
        now = time.monotonic()
        self.gap_s, self._last = max(self.gap_s, now - self._last), now
        execution_id = subject.split(b".")[3].decode()
        if b'"task.waiting"' in data:
            self.waiting.add(execution_id)
        if b'"playbook.processed"' in data:
            self.over[execution_id] = now


async def until(reached: Callable[[], bool], what: str, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not reached():  # noqa: ASYNC110  messages move it
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise SystemExit(f"not within {within_s} s: {what}") from None


def _busy() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", BUSY])


class Recovery:
    def __init__(self, folder: Path, live: int, busy: int) -> None:
        self._folder, self._live, self._busy_count = folder, live, busy
        self.nats = NatsServer(folder / "nats", pools=(POOL,))
        self.services = {name: self._service(name) for name in (*CONTROL, "worker")}
        self.watch = Watch()
        self._news = 0
        self._busy: list[subprocess.Popen[bytes]] = []

    def _service(self, name: str) -> Service:
        user = worker_user(POOL) if name == "worker" else name
        environ = {
            "NOETL_NATS_URL": self.nats.url, "NOETL_NATS_USER": user, "NOETL_NATS_PASSWORD": self.nats.passwords[user],
            "NOETL_POOL": POOL, "NOETL_INSTANCE": f"bench-{name}", "NOETL_LOG_LEVEL": "warning",
        }  # fmt: skip
        return Service(name, environ, self._folder)

    async def open(self) -> None:
        self.nats.start()
        self.bus: JetStreamBus = await jetstream.connect(self.nats.url_for("admin"))
        await ensure(self.bus, topology.wanted((POOL,)))
        await register_playbooks(self.bus)
        await self.bus.connection.route(f"{subjects.EVENTS}.>", self.watch.seen)
        for service in self.services.values():
            await service.start()
        for service in self.services.values():
            await service.ready()

    async def close(self) -> None:
        for process in self._busy:
            process.kill()
        for service in self.services.values():
            await service.stop()
        await self.bus.close()
        self.nats.stop()

    async def fill(self) -> None:
        """As many executions that wait as wanted, some at a time."""
        for first in range(0, self._live, BURST):
            names = [f"old-{n}" for n in range(first, min(first + BURST, self._live))]
            await asyncio.gather(*[await self._request("bench/approval", name) for name in names])
            await until(lambda: len(self.watch.waiting) >= first + len(names), "they wait", STARTED_S)  # noqa: B023
        await asyncio.sleep(3.0)  # the cursors are saved once a second

    async def _request(self, path: str, name: str) -> "asyncio.Future[int]":
        return await self.bus.send(subjects.EXECUTE, msgspec.json.encode(Request(path, execution_id=name)))

    async def recover(self, victims: tuple[str, ...]) -> dict[str, Any]:
        said = {name: self.services[name].said("execution.waits") for name in CONTROL}
        for name in CONTROL:
            await self.services[name].kill()
        if "broker" in victims:
            await asyncio.to_thread(self.nats.kill)
            await asyncio.to_thread(self.nats.start)
        self._busy = [_busy() for _ in range(self._busy_count)]
        began = time.monotonic()
        self.watch.begin()
        for name in CONTROL:
            await self.services[name].start()
        ready = {name: asyncio.create_task(self._ready(name, began)) for name in CONTROL}
        fresh = await self._fresh(began, ready)
        silence = self.watch.gap_s
        self.watch.begin()
        all_over = await self._end_all()
        return {
            "ready_s": {name: round(await task, 2) for name, task in ready.items()},
            "first_new_s": round(fresh[0], 2),
            "new_median_s": round(statistics.median(fresh), 3), "new_worst_s": round(max(fresh), 2), "new": len(fresh),
            "longest_silence_s": round(silence, 2),
            "old_over_s": round(all_over, 2), "silence_while_they_end_s": round(self.watch.gap_s, 2),
            "waits": {name: self.services[name].said("execution.waits") - said[name] for name in CONTROL},
            "cpu_s": {name: round(cpu.used_s(self.services[name].pid), 1) for name in CONTROL},
            "rss_mb": {name: cpu.rss_mb(self.services[name].pid) for name in CONTROL},
        }  # fmt: skip

    async def _ready(self, name: str, began: float) -> float:
        await self.services[name].ready(RECOVERED_S)
        return time.monotonic() - began

    async def _fresh(self, began: float, ready: dict[str, "asyncio.Task[float]"]) -> list[float]:
        """New executions of one step, each after the one before, while the services get ready and a while longer."""
        found = []
        while time.monotonic() - began < WATCH_S or not all(task.done() for task in ready.values()):
            self._news += 1
            name, start = f"new-{self._news}", time.monotonic()
            await (await self._request("bench/noop", name))
            await until(lambda: name in self.watch.over, f"{name} is over", RECOVERED_S)  # noqa: B023
            found.append(self.watch.over[name] - start)
            await asyncio.sleep(EVERY_S)
        return found

    async def _end_all(self) -> float:
        """Every old execution is told to go on; how long until the last has ended."""
        start, old = time.monotonic(), [f"old-{n}" for n in range(self._live)]
        for first in range(0, len(old), BURST):
            told = [Control(name, name="go") for name in old[first : first + BURST]]
            await asyncio.gather(*[await self.bus.send(subjects.SIGNAL, msgspec.json.encode(each)) for each in told])
        await until(lambda: all(name in self.watch.over for name in old), "the old ones are over", RECOVERED_S)
        return time.monotonic() - start


async def bench(args: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="noetl-recovery-"))
    recovery = Recovery(folder, args.live, args.busy)
    try:
        await recovery.open()
        await recovery.fill()
        found = {"live": args.live, "busy": args.busy, **await recovery.recover(tuple(args.kill.split(",")))}
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    finally:
        await recovery.close()
        if args.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("--live", type=int, default=18_000, help="executions that wait (18000)")
    parser.add_argument("--busy", type=int, default=2, help="processes that take a core each meanwhile (2)")
    parser.add_argument("--kill", choices=["control", "control,broker"], default="control")
    parser.add_argument("--keep", action="store_true", help="leave the logs")
    uvloop.run(bench(parser.parse_args()))


if __name__ == "__main__":
    main()
