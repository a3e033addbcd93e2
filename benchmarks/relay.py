"""The limit: the engine's hops with no engine. Three processes pass records router → scheduler →
worker → router over JetStream and decide nothing.

Kept from the engine: file storage for the events, one record per decision with the expected
sequence of its subject, a work queue for commands that refuses a repeated one, an acknowledgement
for every delivery, sent only after what it caused is stored.

    python -m benchmarks.relay --url nats://127.0.0.1:4222 chain --executions 200 --steps 10
    python -m benchmarks.relay --url nats://127.0.0.1:4222 chain --executions 200 --steps 1 --one-by-one
    python -m benchmarks.relay --url nats://127.0.0.1:4222 fanout --items 1000
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
from collections.abc import Sequence
from multiprocessing.process import BaseProcess

import msgspec
import uvloop

from benchmarks.driver import Driver, Run
from benchmarks.relay_stages import ROLES, drop, prepare
from benchmarks.wire import Server
from shared.events.subjects import partition_of

FIRST = msgspec.json.encode(
    [{"event_type": "workflow.started"}, {"event_type": "step.scheduled", "step": "s0", "ctx": {}}]
)
WATCH = ("bench.events.*.*.router", "bench.events.*.*.scheduler")
ENDS = (b"workflow.finished", b"loop.done")


class Relay:
    """The three processes and their streams, for as long as the `async with` lasts."""

    def __init__(self, server: Server, streams: int = 4, commands: str = "memory") -> None:
        self._server, self._streams, self._commands = server, streams, commands
        self._processes: list[BaseProcess] = []
        self._runs = 0

    async def __aenter__(self) -> "Relay":
        await prepare(self._server, self._streams, self._commands)
        spawn = multiprocessing.get_context("spawn")
        for role in ROLES:
            process = spawn.Process(target=serve, args=(role, self._server, self._streams), daemon=True)
            process.start()
            self._processes.append(process)
        self._driver = await Driver.open(self._server, WATCH, ENDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._driver.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            await asyncio.to_thread(process.join)
        await drop(self._server, self._streams)

    async def run(self, executions: int, *, steps: int = 1, items: int = 1, one_by_one: bool = False) -> Run:
        self._runs += 1
        names = (f"r{self._runs}-{steps}-{items}-{i}" for i in range(executions))
        starts = {name: (self._subject(name), FIRST) for name in names}
        return await (self._driver.one_by_one(starts) if one_by_one else self._driver.burst(starts))

    def pids(self) -> dict[str, int]:
        return {role: process.pid or 0 for role, process in zip(ROLES, self._processes, strict=True)}

    def _subject(self, name: str) -> str:
        return f"bench.events.{partition_of(name, self._streams)}.{name}.router"


def serve(role: str, server: Server, streams: int) -> None:
    uvloop.run(_serve(role, server, streams))


async def _serve(role: str, server: Server, streams: int) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    # A stage that outlived a killed parent would take the messages of the next run.
    asyncio.get_running_loop().add_reader(parent.sentinel, os._exit, 1)
    await ROLES[role](server, streams)


async def measure(args: argparse.Namespace) -> None:
    size = {"steps": args.steps, "items": args.items, "one_by_one": args.one_by_one}
    async with Relay(Server(args.url, args.user, args.password), args.streams, args.commands) as relay:
        await relay.run(args.executions, **size)  # warm, and proof that all three are up
        runs = [await relay.run(args.executions, **size) for _ in range(args.repeat)]
    print(json.dumps(summary(args, runs)))


def summary(args: argparse.Namespace, runs: Sequence[Run]) -> dict[str, object]:
    wall = statistics.median(run.wall_s for run in runs)
    each = sorted(taken for run in runs for taken in run.each_s)
    return {
        "mode": args.mode,
        "executions": args.executions,
        "steps": args.steps,
        "items": args.items,
        "steps_per_s": round(args.executions * args.steps * args.items / wall, 1),
        "wall_s": round(wall, 4),
        "p50_ms": round(each[len(each) // 2] * 1e3, 2),
        "p99_ms": round(each[int(len(each) * 0.99)] * 1e3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description="The limit.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--user", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--commands", choices=["memory", "file"], default="memory")
    modes = parser.add_subparsers(dest="mode", required=True)
    chain, fanout = modes.add_parser("chain"), modes.add_parser("fanout")
    for mode in (chain, fanout):
        mode.set_defaults(executions=1, steps=1, items=1, one_by_one=False)
        mode.add_argument("--repeat", type=int, default=3)
    chain.add_argument("--executions", type=int, default=200)
    chain.add_argument("--steps", type=int, default=10)
    chain.add_argument("--one-by-one", action="store_true")
    fanout.add_argument("--items", type=int, default=1000)
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
