"""What a lease writes, and on which subject."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from services.worker.journal import Journal, has_long_text
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.engine.pipeline.notes import Notes
from shared.engine.values.stored_values import Unstorable
from shared.errors import Refused, Unavailable, Unknown
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, decode
from shared.events.stamp import seconds
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
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w", index), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.park(ev.TaskWaiting("t", 1, "w1", until="2030-01-01T00:00:00.000000Z"))
    parking = asyncio.ensure_future(journal.flush())
    await asyncio.sleep(0)
    parking.cancel()
    with suppress(asyncio.CancelledError):
        await parking
    bus.gate.set()
    await journal.settle()
    notes.forget()
    error = {"kind": "cancelled"}
    notes.note(ev.StepFailed(error) if index < 0 else ev.IterationFailed(error))
    await journal.flush()
    (stored,) = await bus.read(topology.events_stream(0), [">"])
    assert subjects.parse_event(stored.subject).writer == decode(stored, PARTITIONS).writer == writer


async def test_a_lease_that_is_handed_back_leaves_what_it_had_noted_and_nothing_of_a_wait() -> None:
    clock = VirtualClock()
    for wait in (False, True):
        bus = MemoryBus(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
        notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
        journal = Journal(bus, clock, notes, PARTITIONS)
        notes.note(ev.StepStarted(), ev.TaskStarted("t"))
        if wait:
            notes.park(ev.TaskWaiting("t", 1, "w1", until="2030-01-01T00:00:00.000000Z"))
        await journal.release("the worker stops")
        assert notes.over
        (stored,) = await bus.read(topology.events_stream(0), [">"])
        found = [type(event) for event in decode(stored, PARTITIONS).events]
        assert found == [ev.StepStarted, *([] if wait else [ev.TaskStarted]), ev.LeaseReleased]
        assert decode(stored, PARTITIONS).writer == "worker"


async def test_a_lease_that_has_said_nothing_hands_back_without_a_word() -> None:
    """Its first word would be a claim: whoever holds the run would be fenced by a worker that does not want it."""
    clock = VirtualClock()
    bus = MemoryBus(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    journal = Journal(bus, clock, Notes("e1", Lease("s:1", "s", (1, 2), "w"), 1000), PARTITIONS)
    await journal.release("the broker did not answer")
    assert [await bus.last_seq(topology.events_stream(p)) for p in range(PARTITIONS)] == [0] * PARTITIONS


class Unheard(MemoryBus):
    """The first answer gets lost."""

    lost = False

    async def send(self, subject: str, data: bytes, **more: Any) -> "asyncio.Future[int]":
        future = await super().send(subject, data, **more)
        if self.lost:
            return future
        self.lost = True
        await asyncio.wait({future})
        silent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        silent.set_exception(Unknown("no answer"))
        return silent


async def test_what_was_found_in_the_log_is_no_longer_on_its_way() -> None:
    """Otherwise a run that is stopped later could not say so, and its execution would wait for that."""
    clock = VirtualClock()
    bus = Unheard(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.StepStarted())
    writing = asyncio.ensure_future(journal.flush())
    await clock.advance(1.0)
    await writing
    await journal.settle()
    notes.note(ev.StepFailed({"kind": "cancelled"}))
    await journal.flush()
    found = [decode(stored, PARTITIONS) for stored in await bus.read(topology.events_stream(0), [">"])]
    assert [(record.n, type(record.events[-1])) for record in found] == [(1, ev.StepStarted), (2, ev.StepFailed)]


class Gated(MemoryBus):
    """Answers come once the gate is open; `sent` counts what was handed over."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.gate, self.sent = asyncio.Event(), 0

    async def send(self, subject: str, data: bytes, **more: Any) -> "asyncio.Future[int]":
        self.sent += 1

        async def stored() -> int:
            await self.gate.wait()
            return await (await super(Gated, self).send(subject, data, **more))

        return asyncio.ensure_future(stored())


async def test_what_is_sent_is_waited_for_by_the_next_flush_and_keeps_its_order() -> None:
    clock = VirtualClock()
    bus = Gated(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.StepStarted())
    await journal.send()
    assert (bus.sent, notes.n, journal.has_spoken) == (1, 0, True)
    noted = clock.now()
    for name in ("a", "b"):  # behind one that is on its way they wait
        notes.note(ev.TaskStarted(name))
        await journal.send()
    await clock.advance(9.0)
    assert (bus.sent, len(notes.unwritten)) == (1, 2)
    flushing = asyncio.ensure_future(journal.flush())
    await asyncio.sleep(0.01)
    assert not flushing.done()
    bus.gate.set()
    await flushing
    found = [decode(stored, PARTITIONS) for stored in await bus.read(topology.events_stream(0), [">"])]
    assert [(record.n, len(record.events)) for record in found] == [(1, 1), (2, 2)]
    assert seconds(found[1].ts) == noted
    notes.note(ev.TaskStarted("c"))
    await journal.send()
    assert bus.sent == 3
    await journal.settle()
    assert notes.n == 4


async def test_a_flush_that_is_cut_short_leaves_its_record_on_the_way() -> None:
    clock = VirtualClock()
    bus = Gated(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.StepStarted())
    flushing = asyncio.ensure_future(journal.flush())
    await asyncio.sleep(0.01)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    bus.gate.set()
    await journal.settle()
    assert (notes.n, bus.sent, len(await bus.read(topology.events_stream(0), [">"]))) == (1, 1, 1)


async def test_what_was_sent_and_got_lost_is_sent_again_before_anything_else() -> None:
    clock = VirtualClock()
    bus = Lost(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.StepStarted())
    await journal.send()
    notes.note(ev.TaskStarted("a"))
    flushing = asyncio.ensure_future(journal.flush())
    await clock.advance(1.0)
    await flushing
    found = [decode(stored, PARTITIONS) for stored in await bus.read(topology.events_stream(0), [">"])]
    assert [(record.n, type(record.events[0])) for record in found] == [(1, ev.StepStarted), (2, ev.TaskStarted)]


async def test_a_record_that_the_broker_refuses_does_not_stand_in_the_way_of_the_last_one() -> None:
    clock = VirtualClock()
    bus = Lost(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)), Refused("the stream is full"))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.StepStarted())
    await journal.send()
    with pytest.raises(Refused):
        await journal.flush()
    notes.note(ev.StepFailed({"kind": "internal"}))
    await journal.flush()
    (stored,) = await bus.read(topology.events_stream(0), [">"])
    assert decode(stored, PARTITIONS).n == 1


class Lost(MemoryBus):
    """The first record does not arrive."""

    def __init__(self, broker: MemoryBroker, why: Exception | None = None) -> None:
        super().__init__(broker)
        self._why: Exception | None = why or Unavailable("no connection")

    async def send(self, subject: str, data: bytes, **more: Any) -> "asyncio.Future[int]":
        why, self._why = self._why, None
        if why is None:
            return await super().send(subject, data, **more)
        failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        failed.set_exception(why)
        return failed


def test_a_long_text_is_found_wherever_it_begins() -> None:
    for before in range(600):
        short, long = (b'"%b","%b"' % (b"a" * before, b"x" * length) for length in (512, 513))
        assert has_long_text(long)
        assert has_long_text(short) == (before > 512)


@pytest.mark.parametrize("name", ["x" * 513, "x" * 300 + '"' + "x" * 300])
async def test_a_record_with_a_name_that_no_reader_takes_is_not_written(name: str) -> None:
    clock = VirtualClock()
    bus = MemoryBus(MemoryBroker(clock, topology.wanted(partitions=PARTITIONS)))
    notes = Notes("e1", Lease("s:1", "s", (1, 1), "w"), 1000)
    journal = Journal(bus, clock, notes, PARTITIONS)
    notes.note(ev.TaskStarted(name, 1))
    with pytest.raises(Unstorable):
        await journal.flush()
    notes.note(ev.TaskStarted("x" * 512, 1))
    await journal.flush()
    assert len(await bus.read(topology.events_stream(0), [">"])) == 1
