"""One look at the log answers everyone who asked before it began."""

import asyncio

import pytest

from services.worker.history import Histories
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Message
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import Lease, Record, encode
from shared.runtime.service.clock import SystemClock

ITERATIONS = 50


class Counting(MemoryBus):
    reads = 0
    fails = 0

    async def read(self, stream: str, filters: list[str], after: int = 0) -> list[Message]:  # type: ignore[override]
        self.reads += 1
        await asyncio.sleep(0)
        if self.reads <= self.fails:
            raise Unavailable("not now")
        return list(await super().read(stream, filters, after=after))


@pytest.fixture
async def bus() -> Counting:
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = Counting(broker)
    for index in range(ITERATIONS):
        events = (ev.StepStarted(), ev.IterationDone()) if index % 2 else (ev.StepStarted(),)
        record = Record("x", "iteration", 1, "2026-01-01T00:00:00Z", events, lease=Lease("r", "s", (1, 1), "w", index))
        await bus.append(subjects.event(0, "x", "iteration"), encode(record))
    return bus


def command(index: int, **fields: int) -> Command:
    return Command("x", "r", "s", "d", "default", 0, index=index, **fields)  # type: ignore[arg-type]


async def test_many_iterations_that_ask_at_once_are_answered_by_a_few_reads(bus: Counting) -> None:
    histories = Histories(bus, 1)
    found = await asyncio.gather(*(histories.read(command(index)) for index in range(ITERATIONS)))
    assert [known.over for known in found] == [index % 2 == 1 for index in range(ITERATIONS)]
    assert bus.reads <= 2


async def test_the_claim_of_a_whole_loop_counts_for_iterations_of_a_local_one_alone(bus: Counting) -> None:
    claim = Record("x", "iteration", 1, "2026-01-01T00:00:01Z", (ev.StepStarted(),), lease=Lease("r", "s", (1, 2), "w"))
    await bus.append(subjects.event(0, "x", "iteration"), encode(claim))
    histories = Histories(bus, 1)
    assert (await histories.read(command(0), in_local=True)).epoch == (1, 2)
    assert (await histories.read(command(0))).epoch == (1, 1)


async def test_a_read_that_fails_is_the_failure_of_the_one_who_made_it(bus: Counting) -> None:
    bus.fails = 1
    histories = Histories(bus, 1)
    found = await asyncio.gather(*(histories.read(command(index)) for index in range(3)), return_exceptions=True)
    assert [isinstance(each, Unavailable) for each in found] == [True, False, False]


async def test_the_end_of_a_wait_must_be_in_what_was_read(bus: Counting) -> None:
    with pytest.raises(Unavailable):
        await Histories(bus, 1).read(command(0, since=ITERATIONS + 1))
