"""What a lease writes, and on which subject."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from services.worker.journal import Journal
from shared.bus import topology
from shared.bus.memory import MemoryBroker, MemoryBus
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, decode
from tests.support.clock import VirtualClock

PARTITIONS = 1


class Slow(MemoryBus):
    """Nothing is sent before the gate opens."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.gate = asyncio.Event()

    async def send(self, subject: str, data: bytes, **more: Any) -> "asyncio.Future[int]":
        await self.gate.wait()
        return await super().send(subject, data, **more)


@pytest.mark.parametrize(("index", "writer"), [(-1, "worker"), (3, "iteration")])
async def test_a_run_stopped_before_its_wait_was_written_ends_as_a_run(index: int, writer: str) -> None:
    clock = VirtualClock()
    bus = Slow(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    journal = Journal(bus, clock, "e1", Lease("s:1", "s", (1, 1), "w", index), PARTITIONS, 1000)
    journal.note(ev.TaskWaiting("t", 1, "w1", until="2030-01-01T00:00:00.000000Z"))
    parking = asyncio.ensure_future(journal.park())
    await asyncio.sleep(0)
    parking.cancel()
    with suppress(asyncio.CancelledError):
        await parking
    bus.gate.set()
    await journal.settle()
    journal.forget()
    journal.note(ev.StepFailed({"kind": "cancelled"}))
    await journal.flush()
    (stored,) = await bus.read(topology.events_stream(0), [">"])
    assert subjects.parse_event(stored.subject).writer == decode(stored.data).writer == writer
