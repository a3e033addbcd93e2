"""A run that reads a value which is not there, or is not what the log says, ends: it is not handed back for ever."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from services.worker import service as worker_service
from services.worker.service import MOST_S, MOST_TRIES, Worker, pause_s
from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Message
from shared.engine.values.stored_values import STORE
from shared.errors import Unavailable
from shared.events import command as commands
from shared.events import subjects
from shared.events.command import Command, Local
from shared.events.model import Event, IterationFailed, LeaseReleased, LoopHalted, Scope, StepDone, StepFailed
from shared.events.outcome import Ref, Result
from shared.events.record import decode
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores import results
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import ToolOptions
from shared.tools.toolbox import Tools
from tests.support.memory_bus import memory_bus
from tests.unit.engine.support import plan_of, source_of

START = """
- step: start
  next: [{step: one}]
- step: one
  tool: {kind: noop}
  next: [{step: two}]
"""
READS = START + """
- step: two
  tool: {kind: noop, args: {all: "{{ one }}"}}
"""
LOOPS = START + """
- step: two
  loop: {in: [1, 2], iterator: each, spec: {policy: {exec: local}}}
  tool: {kind: noop, args: {all: "{{ one }}"}}
"""
VALUE = b'"a value too large for the log"'
SUM = hashlib.sha256(VALUE).hexdigest()
REF = Ref(STORE, f"x1/{SUM}", SUM, len(VALUE), "value")
ENDS = StepFailed | StepDone | IterationFailed | LoopHalted
OTHER = hashlib.sha256(b"other").hexdigest()
CERTAIN = {
    "another store": replace(REF, store="s3"),
    "another size": replace(REF, size=1),
    "another checksum": replace(REF, checksum=OTHER),
}


class Patient(MemoryBus):
    """Answers nothing about stored values the first time it is asked."""

    asked = 0

    async def get(self, stream: str, subject: str, *, any_copy: bool = False) -> Message | None:
        if stream == topology.RESULTS:
            self.asked += 1
            if self.asked <= 2 * MOST_TRIES:
                raise Unavailable("the broker is away")
        return await super().get(stream, subject, any_copy=any_copy)


@pytest.mark.parametrize("ref", CERTAIN.values(), ids=CERTAIN)
async def test_what_can_never_be_read_fails_the_step_at_once(ref: Ref, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 1000.0)  # tried again, it would not end
    events = await run(ref)
    end = events[-1]
    assert isinstance(end, StepFailed)
    assert end.error["kind"] == "unreadable"
    assert end.error["retryable"] is False
    for word in ("step two", "step one", ref.key):
        assert word in end.error["message"]


async def test_what_is_not_there_is_tried_some_times_and_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.01)
    events = await run(REF, stored=False)
    end = events[-1]
    assert isinstance(end, StepFailed)
    assert end.error["kind"] == "unreadable"
    assert "it may have been purged" in end.error["message"]
    assert REF.key in end.error["message"]
    assert sum(isinstance(event, LeaseReleased) for event in events) == MOST_TRIES - 1


async def test_tries_are_counted_whoever_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.01)
    events = await run(REF, stored=False, workers=3)
    assert sum(isinstance(event, LeaseReleased) for event in events) == MOST_TRIES - 1


async def test_a_value_that_appears_later_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.1)
    bus = memory_bus()

    async def store() -> None:
        await asyncio.sleep(0.3)
        await results.store(bus, "x1", {SUM: VALUE})

    events = await run(REF, stored=False, bus=bus, meanwhile=store)
    assert isinstance(events[-1], StepDone)


async def test_a_broker_that_is_away_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.01)
    monkeypatch.setattr(worker_service, "MOST_S", 0.02)
    events = await run(REF, bus=Patient(memory_bus().broker))
    assert isinstance(events[-1], StepDone)


@pytest.mark.parametrize(("ref", "kind"), [(CERTAIN["another size"], IterationFailed), (REF, LoopHalted)])
async def test_a_loop_on_one_worker_fails_too(
    ref: Ref, kind: type[IterationFailed | LoopHalted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_service, "LATER_S", 0.01)
    end = (await run(ref, stored=kind is IterationFailed, workflow=LOOPS, local=Local(items=[1, 2])))[-1]
    assert isinstance(end, kind)
    assert end.error is not None
    assert end.error["kind"] == "unreadable"


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [pause_s(times) for times in range(100_000, -1, -1)]
    assert pauses == sorted(pauses, reverse=True)
    assert (pauses[-1], pauses[-2], pauses[0]) == (worker_service.LATER_S, 2 * worker_service.LATER_S, MOST_S)
    assert 30 <= MOST_S <= 60


async def run(
    ref: Ref, *, stored: bool = True, bus: MemoryBus | None = None, workflow: str = READS, local: Local | None = None,
    workers: int = 1, meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> list[Event]:
    """What workers write about step two, until it has ended."""
    bus = bus or memory_bus()
    if stored:
        await results.store(bus, "x1", {SUM: VALUE})
    entry = await register(bus, source_of(workflow).encode(), plan_of(workflow))
    command = Command("x1", "two:1", "two", entry.digest, "default", 0, scope=Scope(steps={"one": Result(ref=ref)}),
                      local=local, count=2 if local else 0)
    await bus.append(subjects.command("default", "x1", "two:1"), commands.encode(command))
    stop = asyncio.Event()
    running = [
        asyncio.create_task(
            Worker(bus, Settings(instance=f"w{n}", partitions=1), SystemClock(), Tools(ToolOptions())).run(
                stop, lambda: None))
        for n in range(workers)
    ]
    try:
        async with asyncio.timeout(30):
            if meanwhile is not None:
                await meanwhile()
            return await written(bus)
    finally:
        stop.set()
        await asyncio.gather(*running)


async def written(bus: MemoryBus) -> list[Event]:
    follower = bus.follow(topology.events_stream(0), subjects.written(0, "x1", ["worker", "iteration"]), 0)
    found: list[Event] = []
    while True:
        for message in await follower.batch():
            found += decode(message, 1).events
            if isinstance(found[-1], ENDS):
                return found
