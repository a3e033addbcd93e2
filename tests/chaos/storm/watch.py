"""What a storm must know of the log while it goes on: which executions are over, and how they ended."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, decode, readable

POLL_S = 0.5
_END = b'"playbook.processed"'


class Watch:
    """Reads the routers' records; keeps one word of each execution."""

    def __init__(self, bus: JetStreamBus) -> None:
        self._bus = bus
        self.begun: set[str] = set()
        self.ends: dict[str, str] = {}
        self.ended_at: dict[str, float] = {}
        self.twice: list[str] = []
        self.records = 0
        self._last = dict.fromkeys(range(topology.PARTITIONS), 0)
        self._changed = asyncio.Event()

    def ended(self, executions: Iterable[str]) -> int:
        return sum(1 for execution_id in executions if execution_id in self.ends)

    async def run(self) -> None:
        """For ever, also over a broker that is away."""
        while True:
            with suppress(NoetlError):
                await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        for partition in range(topology.PARTITIONS):
            stream, filters = topology.events_stream(partition), subjects.events_by(partition, subjects.ROUTER)
            for message in await self._bus.read(stream, filters, self._last[partition]):
                self._last[partition] = message.seq
                self.records += 1
                self.begun.add(subjects.parse_event(message.subject).execution_id)
                if _END in message.data:
                    self._note(decode(message, topology.PARTITIONS))
        self._changed.set()
        self._changed = asyncio.Event()

    def _note(self, record: Record) -> None:
        for event in record.events:
            if isinstance(event, ev.PlaybookProcessed):
                if record.execution_id in self.ends:
                    self.twice.append(record.execution_id)
                self.ends[record.execution_id] = event.status
                self.ended_at[record.execution_id] = time.monotonic()

    async def began(self, execution_id: str) -> None:
        while execution_id not in self.begun:
            await self._changed.wait()

    async def over(self, execution_id: str) -> str:
        while execution_id not in self.ends:
            await self._changed.wait()
        return self.ends[execution_id]

    async def history(self, execution_id: str) -> list[tuple[int, Record]]:
        partition = subjects.partition_of(execution_id, topology.PARTITIONS)
        found = await self._bus.read(topology.events_stream(partition), [subjects.events_of(partition, execution_id)])
        return list(readable(found, topology.PARTITIONS))
