"""What a dead letter is about, and what it takes to try it again."""

from typing import Any

import msgspec
import pytest

from services.cli import deadletters, exits
from services.cli.exits import CliError
from shared.bus import topology
from shared.bus.letters import Letter
from shared.bus.memory import MemoryBus
from shared.bus.memory_broker import MemoryBroker
from shared.dsl.documents import compile_document
from shared.events import subjects
from shared.events.request import Control, Request, derive_id
from shared.runtime import timetable
from shared.runtime.clock import SystemClock

TRIGGER = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: orders}
spec: {playbook: {path: a/b}, subject: orders.new, mapping: {id: "{{ message.data.id }}"}}
"""
SCHEDULE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly}
spec: {playbook: {path: a/b, payload: {at: "{{ schedule.unix }}"}}, every: 1h}
"""


def letter(origin: str, note: dict[str, Any] | bytes) -> Letter:
    data = note if isinstance(note, bytes) else msgspec.json.encode(note)
    headers = {"Noetl-Place": "NOETL_EVENTS_0/7"} if isinstance(note, bytes) else {}
    return Letter(3, 1_800_000_000_000_000_000, f"noetl.dlq.{origin}", data, headers)


def request(text: str, subject: str = subjects.EXECUTE, key: str = "") -> Letter:
    return letter("requests", {"reason": "why", "subject": subject, "id": key, "request": text})


@pytest.fixture
async def bus() -> MemoryBus:
    found = MemoryBus(MemoryBroker(SystemClock(), topology.wanted(partitions=1)))
    for kind, source in (("Trigger", TRIGGER), ("Schedule", SCHEDULE)):
        document = compile_document(source, kind=kind).document
        assert document is not None
        await timetable.apply(found, document, source, 0)
    return found


def test_a_row_says_where_it_comes_from_and_why() -> None:
    row = deadletters.row(request("{"))
    assert (row["seq"], row["origin"], row["about"], row["reason"]) == (3, "requests", subjects.EXECUTE, "why")
    assert row["time"] == "2027-01-15T08:00:00.000+00:00"


def test_a_record_says_why_by_itself() -> None:
    shown = deadletters.whole(letter("router", b"{garbage"))
    assert (shown["about"], shown["body"], shown["note"]) == ("NOETL_EVENTS_0/7", "{garbage", {})
    assert "not JSON" in shown["reason"]


async def test_a_request_is_replayed_with_another_body_and_the_id_of_its_key(bus: MemoryBus) -> None:
    subject, asked = await deadletters.again(bus, request("{", key="order-1"), '{"path": "a/b"}')
    assert (subject, asked) == (subjects.EXECUTE, Request("a/b", execution_id=derive_id("id", "order-1")))
    subject, asked = await deadletters.again(bus, request('{"execution_id": "x"}', subjects.CANCEL), None)
    assert (subject, asked) == (subjects.CANCEL, Control("x"))


async def test_a_message_is_what_its_trigger_makes_of_it_now(bus: MemoryBus) -> None:
    note = {"trigger": "orders", "reason": "why", "subject": "orders.new", "message": '{"id": 7}'}
    subject, asked = await deadletters.again(bus, letter("triggers", note), None)
    assert isinstance(asked, Request)
    assert (subject, asked.path, asked.payload) == (subjects.EXECUTE, "a/b", {"id": 7})
    again = await deadletters.again(bus, letter("triggers", note), None)
    assert again[1].execution_id == asked.execution_id


async def test_a_time_is_what_its_schedule_asks_for_now(bus: MemoryBus) -> None:
    note = {"schedule": "nightly", "at": 3600, "reason": "x"}
    _, asked = await deadletters.again(bus, letter("schedules", note), None)
    assert isinstance(asked, Request)
    assert asked.payload == {"at": 3600}


@pytest.mark.parametrize(
    ("buried", "body", "code", "says"),
    [
        (request("{"), None, exits.INVALID, "buried again"),
        (request("{", "noetl.requests.nosuch"), None, exits.CONFLICT, "drop it"),
        (letter("router", b"{"), None, exits.CONFLICT, "cannot be replayed: it is in the log at NOETL_EVENTS_0/7"),
        (letter("triggers", {"trigger": "orders", "message": "text"}), None, exits.INVALID, "buried again"),
        (letter("triggers", {"trigger": "gone"}), None, exits.NOT_FOUND, "no trigger 'gone'"),
        (letter("schedules", {"schedule": "nightly", "at": 1}), "{}", exits.USAGE, "has no body"),
    ],
)
async def test_what_cannot_be_replayed_says_why(
    bus: MemoryBus, buried: Letter, body: str | None, code: int, says: str
) -> None:
    with pytest.raises(CliError, match=says) as refused:
        await deadletters.again(bus, buried, body)
    assert refused.value.code == code
