"""Executions on a stack, and what they cost: time, CPU of every process, bytes in the log and beside it."""

from typing import Any

import msgspec
from msgspec import Struct
from nats.aio.client import Client

from benchmarks import cpu
from benchmarks.driver import Driver
from benchmarks.engine import ENDS
from benchmarks.stack import Stack
from shared.bus import topology
from shared.events import subjects
from shared.events.model import PlaybookProcessed, StepScheduled
from shared.events.record import readable

WATCH = (f"{subjects.EVENTS}.*.*.router",)


class Cost(Struct):
    """Of some executions: per unit of their work."""

    units: int
    wall_s: float
    cpu_s: dict[str, float]
    logged: int
    stored: int

    @property
    def cpu_us(self) -> float:
        """Of router, scheduler, workers and broker; the read model may lag and is told by itself."""
        return (
            sum(used for name, used in self.cpu_s.items() if not name.startswith(("projector", "postgres"))) * self.per
        )

    @property
    def reader_us(self) -> float:
        return (self.cpu_s.get("projector", 0.0) + self.cpu_s.get("postgres", 0.0)) * self.per

    @property
    def per(self) -> float:
        return 1e6 / self.units

    def line(self, title: str) -> str:
        each = ", ".join(f"{name} {used * self.per:.0f}" for name, used in self.cpu_s.items())
        return (
            f"{title:34}{self.units / self.wall_s:>10,.0f}/s{self.cpu_us:>9.0f} µs{self.logged / self.units:>10,.0f} B"
            f"{self.stored / self.units:>11,.0f} B   {each}"
        )


HEAD = f"{'':34}{'rate':>12}{'CPU':>12}{'log':>12}{'beside it':>13}   µs of each process, per unit"


class Load:
    def __init__(self, stack: Stack, driver: Driver, nc: Client) -> None:
        self._stack, self._driver, self._nc = stack, driver, nc
        self._runs = 0

    @classmethod
    async def open(cls, stack: Stack) -> "Load":
        return cls(stack, await Driver.open(stack.admin, WATCH, ENDS), await stack.admin.connect())

    async def close(self) -> None:
        await self._driver.close()
        await self._nc.close()

    async def run(
        self,
        path: str,
        payload: dict[str, Any],
        *,
        executions: int,
        units: int,
        steps: int,
        at_once: bool = False,
        result: Any = None,
    ) -> Cost:
        """`units` of all executions together; `steps` of each. One after another unless `at_once`."""
        self._runs += 1
        names = [f"size-{self._runs}-{n}" for n in range(executions)]
        request = {"path": path, "payload": payload}
        starts = {name: (subjects.EXECUTE, msgspec.json.encode({**request, "execution_id": name})) for name in names}
        pids = self._stack.engine.pids() | {"nats-server": self._stack.nats_pid, "postgres": self._stack.postgres_pid}
        used = {name: cpu.used_s(pid) for name, pid in pids.items()}
        sizes = await self._sizes()
        run = await (self._driver.burst(starts) if at_once else self._driver.one_by_one(starts))
        await self._stack.engine.settled()
        for service in self._stack.engine.services:
            service.check()
        check(run.records, executions, steps, result)
        after = await self._sizes()
        spent = {name: cpu.used_s(pid) - used[name] for name, pid in pids.items()}
        return Cost(units, run.wall_s, spent, after[0] - sizes[0], after[1] - sizes[1])

    async def _sizes(self) -> tuple[int, int]:
        """Bytes of the log, and of large values."""
        streams = [topology.events_stream(partition) for partition in range(topology.PARTITIONS)]
        infos = [await self._nc.jetstream().stream_info(name) for name in (*streams, topology.RESULTS)]
        return sum(info.state.bytes for info in infos[:-1]), infos[-1].state.bytes


def check(records: Any, executions: int, steps: int, result: Any) -> None:
    """All completed, with that result of their last step, and every step was scheduled as often as it should."""
    completed = scheduled = 0
    for _, record in readable(records, topology.PARTITIONS):
        for event in record.events:
            if isinstance(event, PlaybookProcessed):
                said = event.result.value if event.result is not None else None
                if event.status == "completed" and result in (None, said):
                    completed += 1
                else:
                    raise SystemExit(
                        f"{record.execution_id} ended as {event.status} with {str(said)[:200]}: {event.error}"
                    )
            elif isinstance(event, StepScheduled):
                scheduled += 1
    if (completed, scheduled) != (executions, executions * steps):
        raise SystemExit(f"{completed} completed, {scheduled} steps; should be {executions}, {executions * steps}")
