"""A worker and the runs it holds: what comes again is adopted, what is another's is let go of."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from services.worker import lease_keeper
from services.worker.hold import SETTLE_S
from services.worker.presence import AWAY_S
from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.events import command as commands
from shared.events import model as ev
from shared.events import subjects
from shared.events.beat import Beat
from shared.events.claim import Claim
from shared.events.command import Command, Local
from shared.events.outcome import Outcome, ok
from shared.events.record import Epoch, Lease, Record, decode, encode
from shared.events.stop import Stop
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.toolbox import Tools
from tests.support.waiting import until
from tests.unit.engine.support import HEAD, plan_of

WORKFLOW = "- {step: start, tool: {kind: shell, cmds: [x]}}"
WITHIN_S = 10.0
SUBJECT = subjects.command("default", "x1", "start:1")


class Slow:
    """A call that takes until it is let go."""

    def __init__(self) -> None:
        self.calls = 0
        self.cut = 0
        self.go = asyncio.Event()

    async def run(self, _call: Call) -> Outcome:
        self.calls += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        return ok({})

    async def close(self) -> None:
        """Nothing to release."""


class SlowTools(Tools):
    def __init__(self) -> None:
        super().__init__(ToolOptions())
        self.slow = Slow()

    def get(self, kind: str) -> Any:
        return super().get(kind) if self.pure(kind) else self.slow


class Place:
    def __init__(self, bus: MemoryBus, digest: str) -> None:
        self.bus, self.digest, self.tools = bus, digest, SlowTools()

    @property
    def slow(self) -> Slow:
        return self.tools.slow

    async def send(self, *, fresh: bool = True, since: int = 0, at: float = 0.0) -> None:
        command = Command("x1", "start:1", "start", self.digest, "default", 0, fresh=fresh, since=since, at=at)
        await self.bus.append(SUBJECT, commands.encode(command))

    def queue(self) -> Any:
        return self.bus.broker.queues[topology.COMMANDS, "default"]

    def expire(self) -> None:
        """The lease is over, and the broker gives the command again, at once."""
        (seq,) = self.bus.broker.streams[topology.COMMANDS].stored
        self.queue().free(seq, 0.0)
        self.bus.broker.wake()

    def end_command(self) -> None:
        """As if the worker had acknowledged it: the next one of the run may come."""
        (seq,) = self.bus.broker.streams[topology.COMMANDS].stored
        self.queue().ack(seq)

    def in_queue(self) -> int:
        return len(self.bus.broker.streams[topology.COMMANDS].stored)

    async def records(self) -> list[Record]:
        return [decode(message, 1) for message in await self.bus.read(topology.events_stream(0), [">"])]

    async def events(self) -> list[ev.Event]:
        return [event for record in await self.records() for event in record.events]

    async def claimed_by_other(self, epoch: Epoch, *more: ev.Event) -> None:
        """Another worker holds the run from here on."""
        lease = Lease("start:1", "start", epoch, "other", pool="default")
        record = Record("x1", "worker", 1, "2026-01-01T00:00:00Z", (ev.StepStarted(), *more), lease=lease)
        await self.bus.append(subjects.event(0, "x1", "worker", "default"), encode(record))

    async def hint(self, epoch: Epoch) -> None:
        claim = Claim("x1", "start:1", -1, epoch, "other")
        await self.bus.publish(subjects.claims("default"), msgspec.json.encode(claim))

    async def epoch(self) -> Epoch:
        await until(lambda: self.slow.calls == 1, "a call is made", WITHIN_S)
        await asyncio.sleep(0.1)  # what it noted is in the log
        (epoch,) = {record.lease.epoch for record in await self.records() if record.lease is not None}
        return epoch


@pytest.fixture
async def place() -> Place:
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {WORKFLOW}".encode()
    return Place(bus, (await register(bus, source, plan_of(WORKFLOW))).digest)


@asynccontextmanager
async def working(place: Place) -> AsyncIterator[asyncio.Event]:
    """A worker that is told to stop at the end, and may finish what it holds."""
    stop = asyncio.Event()
    worker = Worker(place.bus, Settings(instance="w1", partitions=1, slots=4), SystemClock(), place.tools)
    running = asyncio.create_task(worker.run(stop, lambda: None))
    try:
        yield stop
    finally:
        stop.set()
        place.slow.go.set()
        await asyncio.wait_for(running, WITHIN_S)


async def test_a_redelivery_of_a_run_that_is_held_is_adopted(place: Place) -> None:
    async with working(place):
        await place.send()
        await until(lambda: place.slow.calls == 1, "a call is made", WITHIN_S)
        place.expire()
        await asyncio.sleep(0.3)
        assert place.queue().next_at() - time.time() > topology.COMMAND_LEASE_S / 2, "it is not held again"
        place.slow.go.set()
        await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
    assert place.slow.calls == 1
    assert sum(isinstance(event, ev.StepDone) for event in await place.events()) == 1


async def test_a_command_after_a_wait_that_comes_too_early_runs_when_the_one_before_has_ended(place: Place) -> None:
    async with working(place):
        await place.send()
        await until(lambda: place.slow.calls == 1, "a call is made", WITHIN_S)
        place.end_command()
        await place.send(fresh=False, since=1)
        await asyncio.sleep(0.2)
        assert place.in_queue() == 1
        place.slow.go.set()
        await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
    assert place.slow.calls == 1, "the run was over by then"


async def test_a_run_that_another_has_claimed_is_cut_short_at_its_word(place: Place) -> None:
    async with working(place):
        await place.send()
        stamp, count = await place.epoch()
        await place.claimed_by_other((stamp, count + 1))
        await place.hint((stamp, count + 1))
        await until(lambda: place.slow.cut == 1, "the call is cut off", WITHIN_S)
    assert not any(isinstance(event, ev.StepDone) for event in await place.events())


async def test_a_run_that_another_had_in_between_is_begun_anew_from_what_the_log_says(place: Place) -> None:
    """Its command was issued again, and comes to the worker that held it first, and whose lease was lost."""
    async with working(place):
        await place.send()
        stamp, count = await place.epoch()
        await place.claimed_by_other((stamp, count + 1), ev.StepDone())
        place.end_command()
        await place.send(fresh=False)
        await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
        assert place.slow.cut == 1
    assert place.slow.calls == 1, "the other one had done it"


async def test_a_stop_after_a_stop_is_heard(place: Place) -> None:
    """The next command of a run that was told to stop may be told so too."""
    async with working(place):
        await place.send()
        await until(lambda: place.slow.calls == 1, "a call is made", WITHIN_S)
        place.end_command()
        await place.send(fresh=False, since=1)
        await asyncio.sleep(0.2)
        stop = msgspec.json.encode(Stop("default", "x1", "start:1"))
        await place.bus.publish(subjects.stops("default"), stop)
        await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
    assert place.slow.cut == 1
    assert [type(event) for event in await place.events()][-1] is ev.StepFailed


async def test_a_word_that_the_log_does_not_bear_out_is_not_believed(place: Place) -> None:
    async with working(place):
        await place.send()
        stamp, count = await place.epoch()
        for _ in range(20):
            await place.hint((stamp, count + 1))
        await asyncio.sleep(0.3)
        assert place.slow.cut == 0
        place.slow.go.set()
        await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
    assert any(isinstance(event, ev.StepDone) for event in await place.events())


async def test_a_lease_handed_back_on_purpose_says_so(place: Place) -> None:
    stop = asyncio.Event()
    worker = Worker(place.bus, Settings(instance="w1", partitions=1, slots=4), SystemClock(), place.tools)
    running = asyncio.create_task(worker.run(stop, lambda: None))
    await place.send()
    await until(lambda: place.slow.calls == 1, "a call is made", WITHIN_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [type(event) for event in await place.events()][-1] is ev.LeaseReleased
    assert place.in_queue() == 1


async def test_a_run_that_lasts_is_named_in_a_beat_before_the_next_is_due(place: Place) -> None:
    inbox = await place.bus.subscribe(f"$KV.{topology.WORKERS}.>")
    async with working(place):
        await inbox.next()
        began = asyncio.get_running_loop().time()
        await place.send()
        async with asyncio.timeout(WITHIN_S):
            while not msgspec.json.decode(await inbox.next(), type=Beat).held:
                pass
        assert asyncio.get_running_loop().time() - began < 1.2
    held = [msgspec.json.decode(message.data, type=Beat).held for message in await _left(inbox) if message.data]
    assert held[-1] == [], "the last beat of a worker that stops names nothing"


class Slept(SystemClock):
    """How long it was slept, by what was asked for: a busy machine takes longer."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.times.append(seconds)
        await super().sleep(seconds)


async def test_the_iterations_of_a_local_loop_do_not_each_wait_after_an_absence(place: Place) -> None:
    """One of them looks into the log when it is over; that will do for those that begin later."""
    local = "- {step: start, loop: {in: [1, 2, 3, 4, 5, 6, 7, 8], iterator: n, spec: {policy: {exec: local}}}, " \
        "tool: {kind: shell, cmds: [x]}}"
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {local}".encode()
    digest = (await register(place.bus, source, plan_of(local))).digest
    command = Command("x1", "start:1", "start", digest, "default", 0, count=8, local=Local([*range(8)]))
    clock = Slept()
    worker = Worker(place.bus, Settings(instance="w1", partitions=1, slots=4), clock, place.tools)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, lambda: None))
    await place.bus.append(SUBJECT, commands.encode(command))
    await until(lambda: place.slow.calls == 1, "a call is made", WITHIN_S)
    worker._presence._confirmed -= 2 * AWAY_S
    began = asyncio.get_running_loop().time()
    place.slow.go.set()
    await until(lambda: place.in_queue() == 0, "nothing is queued", WITHIN_S)
    took = asyncio.get_running_loop().time() - began
    stop.set()
    await running
    assert place.slow.calls == 8
    assert took > SETTLE_S
    assert 0 < clock.times.count(SETTLE_S) < 5, clock.times


LOOP = "- {step: start, loop: {in: [1, 2], iterator: n, spec: {policy: {exec: local}}}, " \
    "tool: [{name: one, kind: shell, cmds: [x]}, {name: two, kind: shell, cmds: [x]}]}"


async def test_an_iteration_of_a_local_loop_makes_no_call_once_another_has_claimed_the_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other has not come to this iteration yet: it is the claim of the whole loop that says so."""
    monkeypatch.setattr(lease_keeper, "TICK_S", 60.0)  # so that nobody else looks
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {LOOP}".encode()
    digest = (await register(place.bus, source, plan_of(LOOP))).digest
    command = Command("x1", "start:1", "start", digest, "default", 0, count=2, local=Local([1, 2]))
    worker = Worker(place.bus, Settings(instance="w1", partitions=1, slots=4), SystemClock(), place.tools)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, lambda: None))
    await place.bus.append(SUBJECT, commands.encode(command))
    stamp, count = await place.epoch()
    lease = Lease("start:1", "start", (stamp, count + 1), "other", pool="default")
    record = Record("x1", "iteration", 1, "2026-01-01T00:00:00Z", (ev.StepStarted(),), lease=lease)
    await place.bus.append(subjects.event(0, "x1", "iteration", "default"), encode(record))
    worker._presence._confirmed -= 2 * AWAY_S
    place.slow.go.set()
    stop.set()
    await asyncio.wait_for(running, WITHIN_S)
    assert place.slow.calls == 1


class Cut(MemoryBus):
    """A connection that, while it is cut, gives no answer, and gets rid of everything in the end."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.whole, self.waits = asyncio.Event(), 0
        self.whole.set()

    async def send(self, subject: str, *args: Any, **options: Any) -> "asyncio.Future[int]":
        self.waits += subject.startswith(subjects.EVENTS)
        await self.whole.wait()
        return await super().send(subject, *args, **options)

    async def kv_put(self, *args: Any, **options: Any) -> int:
        await self.whole.wait()
        return await super().kv_put(*args, **options)

    async def read(self, *args: Any, **options: Any) -> Any:
        await self.whole.wait()
        return await super().read(*args, **options)


async def test_a_call_is_not_made_if_its_run_was_taken_while_the_record_before_it_was_on_its_way(place: Place) -> None:
    book = "- {step: start, tool: [{name: first, kind: noop}, {name: second, kind: shell, cmds: [x]}]}"
    source = f"{HEAD}workload: {{}}\nworkflow:\n  {book}".encode()
    place.digest = (await register(place.bus, source, plan_of(book))).digest
    whole, place.bus = place.bus, Cut(place.bus.broker)
    cut = place.bus
    async with working(place):
        await asyncio.sleep(0.3)  # it is there
        cut.whole.clear()
        try:
            await Place(whole, place.digest).send(at=time.time())
            await until(lambda: cut.waits == 1, "it waits", WITHIN_S)
            await Place(whole, place.digest).claimed_by_other((int(time.time() * 1e9), 2))
            await asyncio.sleep(AWAY_S + 0.2)
        finally:
            cut.whole.set()
        place.slow.go.set()
        await asyncio.sleep(1.0)
    assert place.slow.calls == 0, "the other one makes it"


async def _left(inbox: Any) -> list[Any]:
    found = []
    while True:
        try:
            async with asyncio.timeout(0.1):
                found.append(await inbox.message())
        except TimeoutError:
            return found
