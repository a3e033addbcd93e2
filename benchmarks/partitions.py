"""`python -m benchmarks.partitions`: the relay over 4, 8 and 16 event streams on servers of their own, in turns. With
`sync_interval: always` each stream waits for its own fsync: more streams, more of them at the same time."""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from benchmarks import report
from benchmarks.driver import Run
from benchmarks.relay import Relay
from benchmarks.wire import Server
from benchmarks.workloads import WORKLOADS, Workload
from shared.runtime.embedded.nats_server import NatsServer


async def measure(workload: Workload, relays: dict[int, Relay], repeat: int) -> dict[int, float]:
    runs: dict[int, list[Run]] = {count: [] for count in relays}
    for turn in range(repeat + 1):
        for count, relay in relays.items():
            run = await relay.run(
                workload.executions, steps=workload.steps, items=workload.items, one_by_one=workload.one_by_one
            )
            if turn:
                runs[count].append(run)
    return {count: statistics.median(report.figure(workload, run) for run in each) for count, each in runs.items()}


async def bench(counts: Sequence[int], sync: str, repeat: int) -> None:
    async with AsyncExitStack() as stack:
        relays = {}
        for count in counts:
            folder = Path(tempfile.mkdtemp(prefix="noetl-partitions-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            nats = NatsServer(folder / "nats", sync_always=sync == "always").start()
            stack.callback(nats.stop)
            admin = Server(nats.url, "admin", nats.passwords["admin"])
            relays[count] = await stack.enter_async_context(Relay(admin, streams=count))
        print(f"sync: {sync}\n{'':4}{'partitions':12}" + "".join(f"{count:>10}" for count in counts), flush=True)
        for workload in WORKLOADS:
            if workload.relay:
                found = await measure(workload, relays, repeat)
                figures = "".join(f"{found[count]:>10.1f}" for count in counts)
                print(f"{workload.name:4}{workload.unit:12}{figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__)
    parser.add_argument("--counts", default="4,8,16", help="partitions to compare (4,8,16)")
    parser.add_argument("--sync", choices=["default", "always"], default="always")
    parser.add_argument("--repeat", type=int, default=3, help="measured turns of each workload (3)")
    args = parser.parse_args()
    uvloop.run(bench([int(each) for each in args.counts.split(",")], args.sync, args.repeat))


if __name__ == "__main__":
    main()
