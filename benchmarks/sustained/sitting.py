"""`python sitting.py SYNC SECONDS IN_FLIGHT FILE`: one sitting; its figures go to the file as JSON.

It is run by its path, with a checkout first in PYTHONPATH: services, broker, database and playbook are that checkout's.
So it uses only what every checkout has: `benchmarks.stack`, `benchmarks.cpu`, and the broker and SQL themselves.
"""

import asyncio
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import nats
import uvloop

from benchmarks import cpu
from benchmarks.stack import Stack

PLAYBOOK, STEPS = "bench/chain", 10
WARM_S = 3.0
SAMPLE_S = 1.0
TAIL_S = 20.0  # the end of the load, in which the read model has to hold the engine's rate
STALLED_S = 60.0
CATCH_UP_S = 300.0
TABLES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'noetl' AND c.relkind = 'r'
"""
WAL = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
COMPLETED = "SELECT count(*) FROM noetl.execution WHERE status = 'completed'"


class Load:
    """Keeps a number of executions in flight through a plain client: each that ends starts another."""

    def __init__(self, nc: nats.NATS, in_flight: int) -> None:
        self._nc, self._in_flight = nc, in_flight
        self._open: set[str] = set()
        self._goes_on = True
        self.started = self.ended = 0
        self.over = asyncio.Event()

    async def begin(self) -> None:
        await self._nc.subscribe("noetl.events.*.*.router", cb=self._seen)
        await self._nc.flush()
        for _ in range(self._in_flight):
            await self._start()

    async def _start(self) -> None:
        self.started += 1
        name = f"sustained-{self.started}"
        self._open.add(name)
        body = msgspec.json.encode({"path": PLAYBOOK, "payload": {}, "execution_id": name})
        await self._nc.publish("noetl.requests.execute", body)

    async def _seen(self, msg: Any) -> None:
        if b'"playbook.processed"' not in msg.data:
            return
        name = msg.subject.split(".")[3]
        if name not in self._open:
            return
        self._open.remove(name)
        self.ended += 1
        if self._goes_on:
            await self._start()
        elif not self._open:
            self.over.set()

    async def end(self) -> None:
        self._goes_on = False
        async with asyncio.timeout(STALLED_S):
            await self.over.wait()


class Sample(msgspec.Struct, frozen=True):
    at: float
    ended: int
    logged: int     # records
    projected: int
    lag_s: float


class Watch:
    """What log, read model and processes are at a moment."""

    def __init__(self, stack: Stack, nc: nats.NATS, db: asyncpg.Connection, postgres: int) -> None:
        self._nc, self._js, self._db = nc, nc.jetstream(), db
        self._engine, self._postgres = stack.engine, postgres
        self._streams: list[str] = []
        self._pids = {**self._engine.pids(), "nats-server": stack.nats_pid, "postgres": postgres}

    async def find_streams(self) -> None:
        infos = await self._js.streams_info()
        self._streams = sorted(i.config.name for i in infos if (i.config.name or "").startswith("NOETL_EVENTS_"))

    async def sample(self, load: Load) -> Sample:
        rows = await self._db.fetch("SELECT partition, seq FROM noetl.cursor")
        cursors = {f"NOETL_EVENTS_{row['partition']}": row["seq"] for row in rows}
        logged, lag = 0, 0.0
        for stream in self._streams:
            last = (await self._js.stream_info(stream)).state.last_seq
            logged += last
            if (after := cursors.get(stream, 0)) < last:
                lag = max(lag, await self._age(stream, after + 1))
        return Sample(time.monotonic(), load.ended, logged, sum(cursors.values()), lag)

    async def _age(self, stream: str, seq: int) -> float:
        """How long ago the message was stored: the first one that is not in the read model."""
        answer = await self._nc.request(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode({"seq": seq}))
        stored = msgspec.json.decode(answer.data)["message"]["time"]
        return max(0.0, time.time() - msgspec.json.decode(f'"{stored}"', type=datetime).timestamp())

    def cpu(self) -> dict[str, float]:
        return {"client": time.process_time(), **{name: cpu.used_s(pid) for name, pid in self._pids.items()}}

    def memory(self) -> dict[str, float]:
        return {name: cpu.rss_mb(pid) for name, pid in self._pids.items()}

    async def sizes(self) -> dict[str, int]:
        states = [(await self._js.stream_info(stream)).state for stream in self._streams]
        return {
            "log": sum(state.bytes for state in states), "tables": int(await self._db.fetchval(TABLES)),
            "wal_kept": _bytes_in(Path(f"/proc/{self._postgres}/cwd/pg_wal")),
            "wal_written": int(await self._db.fetchval(WAL)),
        }

    def check(self) -> None:
        for service in self._engine.services:
            service.check()


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def sitting(sync: str, seconds: float, in_flight: int) -> dict[str, Any]:
    async with Stack(sync, {}) as stack:
        db = await asyncpg.connect(stack.dsn)
        try:
            postgres = _parent(await db.fetchval("SELECT pg_backend_pid()"))
            user = {"user": stack.admin.user, "password": stack.admin.password} if stack.admin.user else {}
            nc = await nats.connect(stack.admin.url, **user)
            try:
                watch = Watch(stack, nc, db, postgres)
                await watch.find_streams()
                return await _measured(watch, Load(nc, in_flight), db, seconds)
            finally:
                await nc.close()
        finally:
            await db.close()


async def _measured(watch: Watch, load: Load, db: asyncpg.Connection, seconds: float) -> dict[str, Any]:
    before = await watch.sizes()
    await load.begin()
    await asyncio.sleep(WARM_S)
    used, samples = watch.cpu(), [await watch.sample(load)]
    until = samples[0].at + seconds
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(SAMPLE_S, left))
        watch.check()
        samples.append(await watch.sample(load))
    after, memory = watch.cpu(), watch.memory()
    await load.end()
    caught_up = await _caught_up(watch, load)
    sizes = await watch.sizes()
    if not load.started == load.ended == (completed := await db.fetchval(COMPLETED)):
        raise SystemExit(f"{load.started} started, {load.ended} ended, {completed} completed by the read model")
    first, last = samples[0], samples[-1]
    steps, all_steps = (last.ended - first.ended) * STEPS, load.ended * STEPS
    grown = {name: sizes[name] - before[name] for name in sizes}
    tail = next(sample for sample in samples if sample.at >= last.at - TAIL_S)
    return {
        "steps_s": steps / (last.at - first.at),
        "tail": {"engine": _rate(tail, last, "logged"), "read_model": _rate(tail, last, "projected")},
        "lag_s": max(sample.lag_s for sample in samples if sample.at >= tail.at),
        "caught_up_s": caught_up,
        "bytes": {"log": grown["log"] / all_steps, "tables": grown["tables"] / all_steps,
                  "ratio": grown["tables"] / grown["log"], "wal_written": grown["wal_written"] / all_steps},
        "wal_kept": sizes["wal_kept"],
        "cpu_us": {name: (after[name] - used[name]) / steps * 1e6 for name in used},
        "memory_mb": memory,
        "samples": samples,
    }


def _rate(since: Sample, until: Sample, what: str) -> float:
    """Records per second, as the steps that they are of."""
    steps = STEPS * until.ended / until.logged
    return float((getattr(until, what) - getattr(since, what)) / (until.at - since.at) * steps)


async def _caught_up(watch: Watch, load: Load) -> float:
    """Seconds from the last end until all of the log is in the read model."""
    began = time.monotonic()
    async with asyncio.timeout(CATCH_UP_S):
        while (found := await watch.sample(load)).projected < found.logged:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.1)
    return time.monotonic() - began


def main() -> None:
    sync, seconds, in_flight, file = sys.argv[1:5]
    found = uvloop.run(sitting(sync, float(seconds), int(in_flight)))
    Path(file).write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
