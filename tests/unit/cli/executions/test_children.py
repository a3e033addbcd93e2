"""Whoever watches an execution sees those it starts, as far as they are followed."""

import pytest

from services.cli import describe, family, logbook, requests
from services.cli.display import NOBODY, Kin
from shared.bus import topology
from shared.bus.memory import MemoryBus
from shared.bus.memory_broker import MemoryBroker
from shared.engine.summary import Summary
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, Record, Writer, encode
from shared.events.stamp import stamp
from shared.runtime.clock import SystemClock

STARTED = (ev.ExecutionRequested("a/b"), ev.PlaybookStarted(), ev.StepScheduled("call:1", "call"))


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(MemoryBroker(SystemClock(), topology.wanted(partitions=1)))


async def write(bus: MemoryBus, execution_id: str, writer: Writer, *events: ev.Event, n: int = 1) -> None:
    lease = Lease("call:1", "call", (1, 1), "w1") if writer == "waiting" else None
    record = Record(execution_id, writer, n, stamp(1_800_000_000.0), events, lease=lease)
    await bus.append(subjects.event(0, execution_id, writer), encode(record))


async def call(bus: MemoryBus, parent: str, *children: str) -> None:
    await write(bus, parent, "router", *STARTED)
    for child in children:
        await write(bus, parent, "waiting", ev.TaskWaiting("t", 1, child, ev.Child(child, "a/child")))


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
    await call(bus, "p", "c1", "c2")
    await call(bus, "c1", "g1")
    for each in ("g1", "c2"):
        await write(bus, each, "router", *STARTED, ev.PlaybookProcessed())
    await write(bus, "c1", "router", ev.PlaybookProcessed("failed"), n=4)
    shown = Watched(bus, {"c1", "c2", "g1"})
    summary = await requests.finish(bus, "p", 1, shown, family=True)
    assert (summary.status, shown.seen) == ("completed", {"c1": "failed", "c2": "completed", "g1": "completed"})


async def test_no_more_than_a_few_are(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "MAX_FOLLOWED", 2)
    await call(bus, "p", "c1", "c2", "c3")
    for each in ("c1", "c2", "c3"):
        await write(bus, each, "router", *STARTED, ev.PlaybookProcessed())
    shown = Watched(bus, {"c1", "c2"})
    await requests.finish(bus, "p", 1, shown, family=True)
    assert set(shown.seen) == {"c1", "c2"}


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
