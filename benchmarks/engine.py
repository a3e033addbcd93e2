"""The engine under measurement: its services as processes, its playbooks, and checked runs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import cpu
from benchmarks.driver import Driver, Run
from benchmarks.processes import Service
from benchmarks.wire import Server
from benchmarks.workloads import Workload
from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.compile import compile_playbook
from shared.events import subjects
from shared.events.model import LoopDone, PlaybookProcessed, StepScheduled
from shared.events.record import decode
from shared.runtime.stores import catalog
from shared.tools import registry

PLAYBOOKS = Path(__file__).parent / "playbooks"
WATCH = (f"{subjects.EVENTS}.*.*.router", f"{subjects.EVENTS}.*.*.scheduler")
ENDS = (b'"playbook.processed"',)
LINGER_S = 0.2  # for records of a run that arrive after its last end; the clock has stopped
QUIET_S = 0.6
QUIET_CPU_S = 0.04
QUIET_TIMEOUT_S = 60.0


async def register_playbooks(bus: Bus) -> None:
    for file in sorted(PLAYBOOKS.glob("*.yaml")):
        source = file.read_bytes()
        compiled = compile_playbook(source, kinds=registry.specs())
        if compiled.plan is None:
            raise SystemExit(f"{file.name}: " + "\n".join(map(str, compiled.diagnostics)))
        await catalog.register(bus, source, compiled.plan)


class Engine:
    """Running services. `run` starts executions, waits for their ends and checks what the log says."""

    def __init__(self, services: Sequence[Service], driver: Driver) -> None:
        self.services, self._driver = services, driver
        self._runs = 0

    @classmethod
    async def open(cls, services: Sequence[Service], server: Server) -> "Engine":
        try:
            await asyncio.gather(*(service.start() for service in services))
            await asyncio.gather(*(service.ready() for service in services))
            return cls(services, await Driver.open(server, WATCH, ENDS))
        except BaseException:
            await asyncio.gather(*(service.stop() for service in services))
            raise

    async def close(self) -> None:
        await self._driver.close()
        await asyncio.gather(*(service.stop() for service in self.services))

    async def run(self, workload: Workload, payload: dict[str, Any]) -> Run:
        self._runs += 1
        request = {"path": f"bench/{workload.playbook}", "payload": payload}
        names = (f"{workload.name}-{self._runs}-{i}" for i in range(workload.executions))
        starts = {name: (subjects.EXECUTE, msgspec.json.encode({**request, "execution_id": name})) for name in names}
        run = await (self._driver.one_by_one(starts) if workload.one_by_one else self._driver.burst(starts))
        await asyncio.sleep(LINGER_S)
        for service in self.services:
            service.check()
        verify(workload, run)
        return run

    def pids(self) -> dict[str, int]:
        return {service.name: service.pid for service in self.services}

    async def settled(self) -> float:
        """Waits until the services do nothing: the projector may be behind, and must not run on the
        relay's time. Gives how many cores others kept busy meanwhile."""
        async with asyncio.timeout(QUIET_TIMEOUT_S):
            while True:
                busy = cpu.busy_s()
                if sum((await self.cpu(QUIET_S)).values()) <= QUIET_CPU_S:
                    return (cpu.busy_s() - busy) / QUIET_S

    async def cpu(self, seconds: float) -> dict[str, float]:
        """CPU seconds each service uses in the next `seconds`."""
        before = {name: cpu.used_s(pid) for name, pid in self.pids().items()}
        await asyncio.sleep(seconds)
        return {name: cpu.used_s(pid) - before[name] for name, pid in self.pids().items()}


def verify(workload: Workload, run: Run) -> None:
    """Every execution completed, every step was scheduled once, every iteration came back."""
    completed = scheduled = iterations = 0
    for message in run.records:
        for event in decode(message, topology.PARTITIONS).events:
            match event:
                case PlaybookProcessed():
                    completed += event.status == "completed"
                case StepScheduled():
                    scheduled += 1
                case LoopDone():
                    iterations += event.count - event.failed
    wanted_iterations = workload.items if workload.playbook == "loop" else 0
    found = completed, scheduled, iterations
    wanted = workload.executions, workload.executions * workload.steps, wanted_iterations
    if found != wanted:
        raise SystemExit(f"{workload.name}: (completed, steps, iterations) are {found}, should be {wanted}")
