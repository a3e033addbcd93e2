"""The event log as a test watches it, and what must be true of it in the end."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, decode
from shared.events.request import Request
from shared.runtime.stores.plans import Plans
from tests.support.verified import violations

WITHIN_S = 90.0
POLL_S = 0.05


class Log:
    """What was appended since it was opened, by partition and by execution."""

    def __init__(self, bus: JetStreamBus) -> None:
        self.bus = bus
        self.partitions = topology.PARTITIONS
        self.histories: dict[str, list[tuple[int, Record]]] = {}
        self.ends: dict[str, list[str]] = {}
        self.steps_done = self.iterations_done = 0
        self._messages: dict[int, list[Message]] = {p: [] for p in range(self.partitions)}
        self._last: dict[int, int] = {}

    @classmethod
    async def open(cls, bus: JetStreamBus) -> "Log":
        log = cls(bus)
        for partition in range(log.partitions):
            log._last[partition] = await bus.last_seq(topology.events_stream(partition))
        return log

    async def poll(self) -> None:
        for partition in range(self.partitions):
            stream, every = topology.events_stream(partition), f"{subjects.EVENTS}.{partition}.>"
            for message in await self.bus.read(stream, [every], self._last[partition]):
                self._add(partition, message)

    def _add(self, partition: int, message: Message) -> None:
        record = decode(message, self.partitions)
        self._messages[partition].append(message)
        self._last[partition] = message.seq
        self.histories.setdefault(record.execution_id, []).append((message.seq, record))
        for event in record.events:
            match event:
                case ev.StepDone():
                    self.steps_done += 1
                case ev.IterationDone():
                    self.iterations_done += 1
                case ev.PlaybookProcessed(status=status):
                    self.ends.setdefault(record.execution_id, []).append(status)

    async def until(self, reached: Callable[["Log"], bool], what: str, within_s: float = WITHIN_S) -> None:
        """Polls, also over a broker that is away, until it is reached."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    with suppress(Unavailable):  # it is being killed
                        await self.poll()
                    if reached(self):
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not in {within_s} s: {what}; {self.summary()}") from None

    async def until_over(self, executions: Sequence[str], within_s: float = WITHIN_S) -> None:
        wanted = set(executions)
        await self.until(lambda log: log.ends.keys() >= wanted, f"{len(wanted)} executions over", within_s)

    def messages(self, partition: int) -> list[Message]:
        return self._messages[partition]

    def events(self, execution_id: str) -> list[tuple[Record, ev.Event]]:
        return [(record, event) for _, record in self.histories.get(execution_id, ()) for event in record.events]

    def summary(self) -> str:
        unfinished = sorted(self.histories.keys() - self.ends.keys())
        return f"{len(self.histories)} began, {len(self.ends)} ended, open: {unfinished[:5]}"


async def start(bus: JetStreamBus, path: str, payloads: dict[str, dict[str, Any]]) -> None:
    """Requests an execution under each of the ids; all are stored when this returns."""
    sent = []
    for execution_id, payload in payloads.items():
        request = Request(path, payload=payload, execution_id=execution_id)
        sent.append(await bus.send(subjects.EXECUTE, msgspec.json.encode(request)))
    await asyncio.gather(*sent)


async def check(log: Log, executions: Sequence[str]) -> None:
    """Each completed, once, and its whole history is one that the rules allow."""
    await log.poll()
    assert {key: log.ends.get(key) for key in executions} == {key: ["completed"] for key in executions}
    plans, values = Plans(log.bus), dict[str, Any]()
    wrong: list[str] = []
    for execution_id in executions:
        found = await violations(log.bus, plans, execution_id, log.histories[execution_id], values)
        wrong += [f"{execution_id}: {violation}" for violation in found]
    assert wrong == [], "\n".join(wrong)


async def held_by(log: Log, run: str) -> str:
    """The worker that claimed the run last; waits for one."""

    def holders(log: Log) -> list[str]:
        return [record.lease.worker for record, event in log.events(run) if isinstance(event, ev.StepStarted)]

    await log.until(lambda log: bool(holders(log)), "a worker has the run")
    return holders(log)[-1]
