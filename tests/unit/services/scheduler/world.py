"""Schedulers' automation on the broker in memory, in virtual time: days pass in no time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from services.scheduler.automation import Automation
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.dsl.documents.compile import compile_document
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, encode
from shared.events.stamp import stamp
from shared.runtime.stores import schedules as store_schedules
from tests.sim.loop import VirtualLoop
from tests.support.clock import at

PARTITIONS = 4
ORDERS = topology.Stream("ORDERS", ("orders.>",))


def shown(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%m-%d %H:%M")


class Clock:
    skew = 0.0

    def __init__(self, start: int) -> None:
        self.start = start

    def now(self) -> float:
        return self.start + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class World:
    def __init__(self, start: str) -> None:
        self.clock = Clock(at(start))
        wanted = topology.wanted(partitions=PARTITIONS)
        wanted = msgspec.structs.replace(wanted, streams=(*wanted.streams, ORDERS))
        self.broker = MemoryBroker(self.clock, wanted)
        self.bus = MemoryBus(self.broker, "admin")
        self._running: dict[str, asyncio.Task[None]] = {}

    async def apply(self, source: str) -> None:
        kind = "Trigger" if "kind: Trigger" in source else "Schedule"
        compiled = compile_document(source, kind=kind)
        assert compiled.document is not None, compiled.diagnostics
        await store_schedules.apply(self.bus, compiled.document, source, int(self.clock.now()))

    async def until(self, text: str) -> None:
        await asyncio.sleep(at(text) - self.clock.now())

    def start(self, name: str = "one") -> None:
        """Owns every partition: a second one is a wrong guess."""
        own = frozenset(range(PARTITIONS))
        automation = Automation(MemoryBus(self.broker, name), self.clock, name, PARTITIONS, lambda: own)
        self._running[name] = asyncio.create_task(automation.run())

    async def stop(self, name: str = "one") -> None:
        task = self._running.pop(name)
        task.cancel()
        await asyncio.wait({task})

    async def kill(self, name: str = "one") -> None:
        """Nothing it does has an effect any more."""
        self.broker.kill(name)
        self._running.pop(name).cancel()
        await asyncio.sleep(0)

    async def requests(self, subject: str = subjects.DERIVED) -> list[dict[str, Any]]:
        stored = await self.bus.read(topology.REQUESTS, [subject])
        return [msgspec.json.decode(message.data) for message in stored]

    async def fired(self) -> list[str]:
        """The scheduled times asked for, in the order they were first asked for."""
        found = [request["payload"]["at"] for request in await self.requests()]
        return [shown(each) for each in dict.fromkeys(found)]

    async def ids(self) -> list[str]:
        return [request["execution_id"] for request in await self.requests()]

    async def log(self, execution_id: str, *events: ev.Event) -> None:
        """As the router writes it."""
        partition = subjects.partition_of(execution_id, PARTITIONS)
        record = Record(execution_id, "router", 1, stamp(self.clock.now()), events)
        await self.bus.append(subjects.event(partition, execution_id, "router"), encode(record))

    async def begun(self, execution_id: str) -> None:
        await self.log(execution_id, ev.PlaybookStarted(workload={}))

    async def ended(self, execution_id: str) -> None:
        await self.log(execution_id, ev.PlaybookProcessed())

    async def close(self) -> None:
        for name in list(self._running):
            await self.stop(name)


def live(start: str, story: Callable[[World], Awaitable[None]]) -> None:
    """Runs the story in a world that begins at this time."""

    async def main() -> None:
        world = World(start)
        try:
            await story(world)
        finally:
            await world.close()

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    loop = VirtualLoop()
    try:
        loop.run_until_complete(main())
    finally:
        structlog.configure(**before)
        loop.close()


def schedule(when: str, *, name: str = "s", more: str = "") -> str:
    return f"""\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {{name: {name}}}
spec:
  playbook: {{path: p, payload: {{at: "{{{{ schedule.unix }}}}"}}}}
  {when}
{more}"""
