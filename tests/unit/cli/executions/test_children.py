"""Whoever watches an execution sees those it starts, as far as they are followed."""

import pytest
from msgspec.structs import replace

from services.cli.commands import describe
from services.cli.executions import children as execution_children
from services.cli.executions import logbook, requests
from services.cli.executions.display import NOBODY, Kin
from shared.answers.history.summary import Summary
from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.engine.leases.lease_fit import child_of
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, Record, Writer, encode
from shared.events.stamp import stamp
from tests.support.memory_bus import memory_bus

LEASE = Lease("call:1", "call", (1, 1), "w1", pool="default")
STARTED = (ev.ExecutionRequested("a/b"), ev.PlaybookStarted(), ev.StepScheduled("call:1", "call", pool="default"))


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


async def write(
    bus: MemoryBus, execution_id: str, writer: Writer, *events: ev.Event, n: int = 1, lease: Lease | None = None
) -> None:
    record = Record(execution_id, writer, n, stamp(1_800_000_000.0), events, lease=lease)
    pool = lease.pool if lease is not None else ""
    await bus.append(subjects.event(0, execution_id, writer, pool), encode(record))


async def call(bus: MemoryBus, parent: str, *waits: str) -> list[str]:
    """The ids of the children: an execution can wait for its own alone."""
    await write(bus, parent, "router", *STARTED)
    children = [child_of(parent, LEASE, wait) for wait in waits]
    for delivery, (wait, child) in enumerate(zip(waits, children, strict=True), 1):
        lease = replace(LEASE, epoch=(1, delivery))  # a wait is the last word of a lease
        await write(bus, parent, "waiting", ev.TaskWaiting("t", 1, wait, ev.Child(child, "a/child")), lease=lease)
    return children


class Watched:
    """Ends the first one when all that are awaited are seen."""

    def __init__(self, bus: MemoryBus, awaited: set[str]) -> None:
        self.bus, self.awaited, self.over = bus, awaited, False
        self.seen: dict[str, str] = {}

    def update(self, _summary: Summary, kin: Kin = NOBODY) -> None:
        self.seen |= {each: it.status for each, it in kin.items()}
        if not self.over and self.awaited <= {each for each, it in kin.items() if it.over}:
            self.over = True
            record = Record("p", "router", 4, stamp(1_800_000_001.0), (ev.PlaybookProcessed(),))
            stream = self.bus.broker.stream(topology.events_stream(0))
            stream.append(subjects.event(0, "p", "router"), encode(record), None, None, 1_800_000_001.0)
            self.bus.broker.wake()

    def close(self) -> None: ...


async def test_children_and_theirs_are_followed(bus: MemoryBus) -> None:
    first, second = await call(bus, "p", "c1", "c2")
    (theirs,) = await call(bus, first, "g1")
    for each in (theirs, second):
        await write(bus, each, "router", *STARTED, ev.PlaybookProcessed())
    await write(bus, first, "router", ev.PlaybookProcessed("failed"), n=4)
    shown = Watched(bus, {first, second, theirs})
    summary = await requests.finish(bus, "p", 1, shown, family=True)
    assert (summary.status, shown.seen) == ("completed", {first: "failed", second: "completed", theirs: "completed"})


async def test_no_more_than_a_few_are(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_children, "MAX_FOLLOWED", 2)
    children = await call(bus, "p", "c1", "c2", "c3")
    for each in children:
        await write(bus, each, "router", *STARTED, ev.PlaybookProcessed())
    shown = Watched(bus, set(children[:2]))
    await requests.finish(bus, "p", 1, shown, family=True)
    assert set(shown.seen) == set(children[:2])


async def test_a_request_that_was_refused_is_described(
    bus: MemoryBus, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"kind": "request", "message": "no playbook 'a/b' is registered"}
    end = ev.PlaybookProcessed("failed", None, error)
    await write(bus, "p", "router", ev.ExecutionRequested("a/b"), ev.RequestEvaluated("", error), end)
    found = await describe.described(await logbook.read(bus, "p", 1))
    assert (found["status"], found["error"], found["runs"], found["place"]) == ("failed", error, [], None)
    describe.tell(found, "table")
    assert "error:     request: no playbook 'a/b' is registered" in capsys.readouterr().out
