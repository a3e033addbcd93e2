"""A router and requests that cannot be used: each is buried once, however it comes, and the others are served."""


import msgspec
import pytest

from services.router import requests as served
from services.router.requests import MAX_DELIVERIES, Requests, pause_s
from services.router.service import Router
from shared.bus import dead_letters, topology
from shared.bus.memory.bus import Faults, MemoryBus
from shared.bus.ports import Storage
from shared.errors import Refused, Unavailable
from shared.events import subjects
from shared.events.fields import Parent
from shared.events.request import Request
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.execution_status import standing
from tests.support.memory_bus import memory_bus
from tests.support.waiting import until

GOOD = msgspec.json.encode(Request("gone", execution_id="good"))
PARENT = Parent("mother", "start:1", "task")


class Delivered:
    """A request that has come so many times."""

    headers: dict[str, str] | None = None

    def __init__(self, data: bytes, tried: int = 1, subject: str = subjects.EXECUTE, seq: int = 1) -> None:
        self.data, self.subject, self.seq, self.epoch = data, subject, seq, (1, tried)
        self.ends: list[str] = []

    async def ack(self) -> None:
        self.ends.append("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self.ends.append(f"nak {delay:g}")

    async def progress(self) -> None:
        """It has no lease."""

    async def extend(self) -> None:
        """It has no lease."""


def router(faults: Faults | None = None) -> tuple[MemoryBus, Router, Requests]:
    bus = memory_bus(faults=faults)
    made = Router(bus, Settings(instance="one", partitions=1), SystemClock())
    return bus, made, made.requests


async def taken(requests: Requests, *deliveries: Delivered) -> list[list[str]]:
    await requests.take(deliveries)
    return await until(lambda: [each.ends for each in deliveries], "all are answered", 10, so=all)


async def reasons(bus: MemoryBus) -> list[str]:
    return [each.note.reason for each in await dead_letters.latest(bus, 10) if each.note is not None]


async def test_one_that_was_tried_too_often_is_buried_and_not_begun() -> None:
    bus, _, requests = router()
    assert await taken(requests, Delivered(GOOD, MAX_DELIVERIES + 1)) == [["ack"]]
    assert "tried 50 times" in (await reasons(bus))[0]
    assert await standing(bus, "good", 1) == "unknown"


async def test_one_that_was_held_for_room_is_begun_however_often_it_came() -> None:
    bus, made, requests = router()
    made.room.note(Storage(99, 100))
    assert await taken(requests, Delivered(GOOD, 500)) == [[f"nak {served.HOLD_S:g}"]]
    made.room.note(Storage(1, 100))
    assert await taken(requests, Delivered(GOOD, 501)) == [["ack"]]
    assert await standing(bus, "good", 1) == "over"  # its playbook is not registered
    assert await reasons(bus) == []


async def test_whoever_waits_for_a_child_that_cannot_be_is_told() -> None:
    bus, _, requests = router()
    wrong = Request("p" * 257, execution_id="wrong", parent=PARENT)
    often = Request("gone", execution_id="often", parent=PARENT)
    await taken(requests, Delivered(msgspec.json.encode(wrong), 1, subjects.CHILD),
                Delivered(msgspec.json.encode(often), MAX_DELIVERIES + 1, subjects.CHILD))
    assert [await standing(bus, each, 1) for each in ("wrong", "often")] == ["over", "over"]
    assert len(await bus.read(topology.events_stream(0), [subjects.event(0, "mother", "control")])) == 2
    assert await reasons(bus) == []


@pytest.mark.parametrize("subject", [subjects.CHILD, subjects.EXECUTE, "noetl.requests.nosuch"])
async def test_what_came_by_the_wrong_way_is_buried(subject: str) -> None:
    bus, _, requests = router()
    parent = None if subject == subjects.CHILD else PARENT
    forged = msgspec.json.encode(Request("gone", execution_id="forged", parent=parent))
    assert await taken(requests, Delivered(forged, 1, subject)) == [["ack"]]
    assert len(await reasons(bus)) == 1
    assert await standing(bus, "forged", 1) == "unknown"


@pytest.mark.parametrize(
    ("error", "ends"), [(Refused("no"), "ack"), (Unavailable("later"), "nak 1"), (KeyError(), "ack")])
async def test_an_error_with_one_does_not_reach_the_others(error: Exception, ends: str) -> None:
    class Once(Faults):
        async def before(self, operation: str, client: str, subject: str) -> None:
            if operation == "send" and ".bad." in subject:
                raise error

    bus, _, requests = router(Once())
    bad = Delivered(msgspec.json.encode(Request("gone", execution_id="bad")), seq=2)
    assert await taken(requests, bad, Delivered(GOOD)) == [[ends], ["ack"]]
    assert await standing(bus, "good", 1) == "over"
    if isinstance(error, KeyError):
        assert "KeyError" in (await reasons(bus))[0]


def test_pauses_grow_to_a_minute() -> None:
    assert [pause_s(tried) for tried in (1, 2, 3, 4, 5, 9, 10, 50)] == [1, 1, 1, 2, 4, 60, 60, 60]
