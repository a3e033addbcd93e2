"""What a dead letter is about, and what it takes to try it again."""

from typing import Any

import msgspec
import pytest

from services.cli.admin import letters
from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus.dead_letters import Letter
from shared.bus.memory.bus import MemoryBus
from shared.dsl.documents.compile import compile_document
from shared.events import subjects
from shared.events.letter import write
from shared.events.request import Control, Request, derive_id
from shared.runtime.stores import schedules as store_schedules
from tests.support.memory_bus import memory_bus

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


def letter(origin: str, data: bytes = b"", place: str = "NOETL_REQUESTS/1", **more: Any) -> Letter:
    note = write(place, "why", data, **more)
    return Letter(3, 1_800_000_000_000_000_000, f"noetl.dlq.{origin}.abc", note, {})


def request(text: str, subject: str = subjects.EXECUTE, key: str = "") -> Letter:
    return letter("requests", text.encode(), subject=subject, headers={"Nats-Msg-Id": key} if key else None)


@pytest.fixture
async def bus() -> MemoryBus:
    found = memory_bus()
    for kind, source in (("Trigger", TRIGGER), ("Schedule", SCHEDULE)):
        document = compile_document(source, kind=kind).document
        assert document is not None
        await store_schedules.apply(found, document, source, 0)
    return found


def test_a_row_says_where_it_comes_from_and_why() -> None:
    row = letters.row(request("{"))
    assert (row["seq"], row["origin"], row["about"], row["reason"]) == (3, "requests", subjects.EXECUTE, "why")
    assert row["time"] == "2027-01-15T08:00:00.000+00:00"


def test_what_is_kept_of_the_message_is_shown() -> None:
    shown = letters.whole(letter("router", b"{garbage\x1b", "NOETL_EVENTS_0/7", subject="noetl.events.0.x.worker"))
    assert (shown["about"], shown["place"]) == ("noetl.events.0.x.worker", "NOETL_EVENTS_0/7")
    assert (shown["body"], shown["bytes"], shown["whole"]) == ("{garbage\\x1b", 9, False)
    assert letters.whole(request("{"))["whole"]


def test_what_no_service_wrote_is_shown_as_it_is() -> None:
    shown = letters.whole(Letter(3, 0, "noetl.dlq.requests", b"\xff\x00", {}))
    assert (shown["origin"], shown["body"], shown["reason"]) == (
        "requests", "\\xff\\x00", "not a letter of this version")


@pytest.mark.parametrize("header", ["Nats-Msg-Id", "Noetl-Request-Id"])
async def test_a_request_is_taken_from_where_it_stands(bus: MemoryBus, header: str) -> None:
    data = msgspec.json.encode({"path": "a/b", "payload": {"text": "x" * 10_000}})
    seq = await bus.append(subjects.EXECUTE, data, headers={header: "order-1"})
    buried = letter("requests", data, f"NOETL_REQUESTS/{seq}", subject=subjects.EXECUTE)
    _, asked = await letters.again(bus, buried, None)
    assert isinstance(asked, Request)
    assert (len(asked.payload["text"]), asked.execution_id) == (10_000, derive_id("id", "order-1"))
    gone = letter("requests", data, "NOETL_REQUESTS/99", subject=subjects.EXECUTE)
    with pytest.raises(CliError, match="only the first bytes of its 10036 are kept"):
        await letters.again(bus, gone, None)


async def test_a_request_is_replayed_with_another_body_and_the_id_of_its_key(bus: MemoryBus) -> None:
    subject, asked = await letters.again(bus, request("{", key="order-1"), '{"path": "a/b"}')
    assert (subject, asked) == (subjects.DERIVED, Request("a/b", execution_id=derive_id("id", "order-1")))
    own = Request("a/b", execution_id="own")
    assert await letters.again(bus, request("{"), '{"path": "a/b", "execution_id": "own"}') == (subjects.EXECUTE, own)
    fired = f'{{"path": "a/b", "execution_id": "{"0" * 20}"}}'
    subject, asked = await letters.again(bus, request(fired, subjects.DERIVED), None)
    assert (subject, asked) == (subjects.DERIVED, Request("a/b", execution_id="0" * 20))
    subject, asked = await letters.again(bus, request('{"execution_id": "x"}', subjects.CANCEL), None)
    assert (subject, asked) == (subjects.CANCEL, Control("x"))


async def test_a_message_is_what_its_trigger_makes_of_it_now(bus: MemoryBus) -> None:
    buried = letter("triggers", b'{"id": 7}', "i 1 1", name="orders", subject="orders.new")
    subject, asked = await letters.again(bus, buried, None)
    assert isinstance(asked, Request)
    assert (subject, asked.path, asked.payload) == (subjects.DERIVED, "a/b", {"id": 7})
    again = await letters.again(bus, buried, None)
    assert again[1].execution_id == asked.execution_id


async def test_a_time_is_what_its_schedule_asks_for_now(bus: MemoryBus) -> None:
    _, asked = await letters.again(bus, letter("schedules", name="nightly", at=3600), None)
    assert isinstance(asked, Request)
    assert asked.payload == {"at": 3600}


@pytest.mark.parametrize(
    ("buried", "body", "code", "says"),
    [
        (request("{"), None, exits.INVALID, "buried again"),
        (request("{", "noetl.requests.nosuch"), None, exits.CONFLICT, "drop it"),
        (letter("router", b"{", "NOETL_EVENTS_0/7"), None, exits.CONFLICT, "in the log at NOETL_EVENTS_0/7"),
        (letter("triggers", b"text", "i 1 1", name="orders"), None, exits.INVALID, "buried again"),
        (letter("triggers", b"\xff", "i 1 1", name="orders"), None, exits.CONFLICT, "only the first bytes"),
        (letter("triggers", name="gone"), None, exits.NOT_FOUND, "no trigger 'gone'"),
        (letter("schedules", name="nightly", at=1), "{}", exits.USAGE, "has no body"),
    ],
)
async def test_what_cannot_be_replayed_says_why(
    bus: MemoryBus, buried: Letter, body: str | None, code: int, says: str
) -> None:
    with pytest.raises(CliError, match=says) as refused:
        await letters.again(bus, buried, body)
    assert refused.value.code == code
