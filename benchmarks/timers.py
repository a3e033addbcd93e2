"""`python -m benchmarks.timers`: timers pending for an hour, and a thousand due in one second.

How late is the time from `until` to the `task.resumed` record.
"""

import argparse
import asyncio
import time
from typing import Any

import msgspec
import uvloop

from benchmarks import cpu
from benchmarks.stack import Stack
from shared.bus import jetstream, topology
from shared.bus.ports import Bus
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import decode
from shared.events.stamp import seconds, stamp

LATER_S = 3600.0
LEAD_S = 30.0
POLL_S = 0.5


class Timers(msgspec.Struct):
    """What the log says of executions by their ids."""

    until: dict[str, float] = {}
    resumed: dict[str, list[float]] = {}
    seen: dict[int, int] = {}

    async def look(self, bus: Bus) -> None:
        for partition in range(topology.PARTITIONS):
            stream, every = topology.events_stream(partition), f"{subjects.EVENTS}.{partition}.>"
            for message in await bus.read(stream, [every], self.seen.get(partition, 0)):
                self.seen[partition] = message.seq
                record = decode(message, topology.PARTITIONS)
                for event in record.events:
                    if isinstance(event, ev.TaskWaiting):
                        self.until[record.execution_id] = seconds(event.until)
                    elif isinstance(event, ev.TaskResumed):
                        self.resumed.setdefault(record.execution_id, []).append(seconds(record.ts))


async def start(bus: Bus, prefix: str, times: list[float]) -> None:
    sent = []
    for number, until in enumerate(times):
        request = {"path": "bench/timer", "payload": {"until": stamp(until)}, "execution_id": f"{prefix}-{number}"}
        sent.append(await bus.send(subjects.EXECUTE, msgspec.json.encode(request)))
    await asyncio.gather(*sent)


async def measure(pending: int, due: int) -> dict[str, Any]:
    async with Stack("default", {}) as stack:
        admin = stack.admin
        bus = await jetstream.connect(admin.url, user=admin.user, password=admin.password)
        timers = Timers()
        await start(bus, "later", [time.time() + LATER_S] * pending)
        await _until(timers, bus, lambda: len(timers.until) == pending)
        rss = {service.name: cpu.rss_mb(service.pid) for service in stack.engine.services}
        first = time.time() + LEAD_S
        await start(bus, "soon", [first + number / due for number in range(due)])
        await _until(timers, bus, lambda: len(timers.until) == pending + due)
        await asyncio.sleep(max(0.0, first + 1 - time.time()))
        await _until(timers, bus, lambda: len(timers.resumed) >= due)
        await bus.close()
    late = sorted(fired[0] - timers.until[key] for key, fired in timers.resumed.items())
    assert all(len(fired) == 1 for fired in timers.resumed.values()), "a timer fired twice"
    return {
        "pending": pending, "due": due, "fired": len(late), "early": sum(each < 0 for each in late),
        "late_p50_ms": round(late[len(late) // 2] * 1e3, 1), "late_p99_ms": round(late[len(late) * 99 // 100] * 1e3, 1),
        "late_max_ms": round(late[-1] * 1e3, 1), "rss_mb": rss,
    }


async def _until(timers: Timers, bus: Bus, reached: Any) -> None:
    async with asyncio.timeout(180):
        while True:
            await timers.look(bus)
            if reached():
                return
            await asyncio.sleep(POLL_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers", description=__doc__)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--due", type=int, default=1_000)
    args = parser.parse_args()
    print(msgspec.json.format(msgspec.json.encode(uvloop.run(measure(args.pending, args.due)))).decode())


if __name__ == "__main__":
    main()
