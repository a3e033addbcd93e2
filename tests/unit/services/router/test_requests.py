"""A router and requests that cannot be used: each is buried once, however it comes, and the others are served."""


import asyncio

import msgspec
import pytest

from services.router import control_requests, wish_lines
from services.router import requests as served
from services.router.requests import MAX_DELIVERIES, Requests, pause_s
from services.router.service import Router
from shared.bus import dead_letters, topology
from shared.bus.memory.bus import Faults, MemoryBus
from shared.bus.ports import Delivery, Storage
from shared.errors import Refused, Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.failure import kind_of
from shared.events.fields import Parent
from shared.events.record import readable
from shared.events.request import Control, Request, derive_id
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores.execution_status import standing
from tests.support.memory_bus import memory_bus
from tests.support.waiting import until

GOOD = msgspec.json.encode(Request("gone", execution_id="good"))
PARENT = Parent("mother", "start:1", "task")


class Delivered:
    """A request that has come so many times."""

    def __init__(
        self, data: bytes, tried: int = 1, subject: str = subjects.EXECUTE, seq: int = 1,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.data, self.subject, self.seq, self.epoch, self.headers = data, subject, seq, (1, tried), headers
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


CHILD_ID = derive_id("child", "mother/start:1/task")
OTHERS = {
    "another's child": (subjects.CHILD, Request("gone", execution_id=CHILD_ID, parent=Parent("x", "start:1", "task"))),
    "a schedule's": (subjects.DERIVED, Request("gone", execution_id=CHILD_ID, by="schedule s")),
}


async def notes(bus: MemoryBus, execution_id: str) -> list[ev.Event]:
    found = await bus.read(topology.events_stream(0), [subjects.event(0, execution_id, "control")])
    return [record.events[0] for _, record in readable(found, 1)]


async def test_a_derived_id_cannot_be_asked_for() -> None:
    bus, _, requests = router()
    for_all = msgspec.json.encode(Request("gone", execution_id=CHILD_ID))
    assert await taken(requests, Delivered(for_all)) == [["ack"]]
    assert "the engine's own" in (await reasons(bus))[0]
    assert await standing(bus, CHILD_ID, 1) == "unknown"
    assert await taken(requests, Delivered(for_all, 1, subjects.DERIVED, seq=2)) == [["ack"]]
    assert await standing(bus, CHILD_ID, 1) == "over"


@pytest.mark.parametrize("first", sorted(OTHERS))
async def test_a_parent_is_told_when_another_execution_has_the_id_of_its_child(first: str) -> None:
    bus, _, requests = router()
    subject, other = OTHERS[first]
    await taken(requests, Delivered(msgspec.json.encode(other), 1, subject))
    asked = msgspec.json.encode(Request("gone", execution_id=CHILD_ID, parent=PARENT))
    for tries in (1, 2):
        assert await taken(requests, Delivered(asked, tries, subjects.CHILD, seq=2)) == [["ack"]]
    told = [each for each in await notes(bus, "mother") if isinstance(each, ev.ChildEnded)]
    assert {(each.child, each.status, each.run_id, each.wait) for each in told} == {
        (CHILD_ID, "failed", "start:1", "task")}
    assert {kind_of(each.error) for each in told} == {"request"}
    assert len([each for each in await reasons(bus) if f"{CHILD_ID} is another execution" in each]) == 1


async def test_a_schedule_that_meets_anothers_execution_is_a_letter() -> None:
    bus, _, requests = router()
    at = derive_id("schedule", "s", 1)
    theirs = Request("gone", execution_id=at, by="trigger t")
    ours = Request("gone", execution_id=at, by="schedule s")
    await taken(requests, Delivered(msgspec.json.encode(theirs), 1, subjects.DERIVED))
    await taken(requests, Delivered(msgspec.json.encode(ours), 1, subjects.DERIVED, seq=2))
    assert [f"{at} is another execution" in each for each in await reasons(bus)] == [True]


@pytest.mark.parametrize(("subject", "asked"), [
    (subjects.CHILD, Request("gone", execution_id=CHILD_ID, parent=PARENT)),
    (subjects.DERIVED, Request("gone", execution_id=CHILD_ID, by="schedule s")),
    (subjects.EXECUTE, Request("gone", execution_id="own")),
])
async def test_a_request_that_comes_again_is_the_same(subject: str, asked: Request) -> None:
    bus, _, requests = router()
    for seq in (1, 2, 3):
        assert await taken(requests, Delivered(msgspec.json.encode(asked), seq, subject, seq)) == [["ack"]]
    assert await reasons(bus) == []
    assert len({str(each) for each in await notes(bus, "mother")}) == (1 if subject == subjects.CHILD else 0)


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


def control(number: int, tried: int = 1) -> Delivered:
    asked = msgspec.json.encode({"execution_id": f"nobody-{number}"})
    return Delivered(asked, tried, subjects.CANCEL, seq=number)


async def test_a_flood_about_nobody_holds_up_no_execution() -> None:
    """What is asked about executions waits for answers that never come here; what starts one does not."""
    class Silent(Faults):
        async def before(self, operation: str, client: str, subject: str) -> None:
            if operation == "get" and "nobody" in subject:
                await asyncio.sleep(3600)

    bus, _, requests = router(Silent())
    flood, good = [control(number) for number in range(2, 1000)], Delivered(GOOD)
    async with asyncio.timeout(30):
        await requests.take([*flood, good])
        await until(lambda: good.ends, "it is begun", so=bool)
    assert await standing(bus, "good", 1) == "over"
    assert [each.ends for each in flood].count([]) == wish_lines.MAX_WAITING


async def test_of_many_that_are_about_nobody_most_are_told_at_once() -> None:
    _, _, requests = router()
    asked = [control(number) for number in range(1, control_requests.MAX_MISSING + 201)]
    ends = []
    for first in range(0, len(asked), 200):
        ends += await taken(requests, *asked[first:first + 200])
    assert ends.count(["nak 1"]) == control_requests.MAX_MISSING
    assert ends.count(["ack"]) == 200


async def test_one_about_nobody_is_looked_for_in_growing_pauses_and_then_told() -> None:
    _, _, requests = router()
    tries = [await taken(requests, control(1, tried)) for tried in range(1, 6)]
    assert tries == [[["nak 1"]], [["nak 2"]], [["nak 3"]], [["nak 4"]], [["ack"]]]


async def test_a_child_that_nobody_waits_for_is_looked_for_longer_and_no_letter_follows() -> None:
    """Its start may be held up as long as its partition has no leader; the broker keeps both."""
    bus, _, requests = router()
    data = msgspec.json.encode(Control(derive_id("child", "x"), "nobody waits", "execution mother"))
    last = len(control_requests.CHILD_S) + 1
    ends = [await taken(requests, Delivered(data, tried, subjects.CANCEL, seq=7)) for tried in (5, last - 1, last)]
    assert ends == [[["nak 8"]], [["nak 60"]], [["ack"]]]
    assert await reasons(bus) == []
    others = (Control("mine", by="execution mother"), Control(derive_id("child", "x"), by="me"))
    for seq, asked in enumerate(others, 8):
        await taken(requests, Delivered(msgspec.json.encode(asked), 5, subjects.CANCEL, seq=seq))
    assert len(await reasons(bus)) == 2


async def test_those_about_one_execution_keep_their_order() -> None:
    done: list[int] = []

    async def do(delivery: Delivery) -> None:
        await asyncio.sleep(0.002 if delivery.seq == 1 else 0)
        done.append(delivery.seq)

    lines = wish_lines.Lines(do)
    assert all(lines.add("one" if number < 4 else "two", control(number)) for number in range(1, 5))
    await until(lambda: len(done), "all are done", so=lambda found: found == 4)
    assert done == [4, 1, 2, 3]
