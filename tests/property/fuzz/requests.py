"""Any bytes of a request, a wish, a request for a child, or a message of a trigger are one within its bounds, or
Corrupt, and a letter can be written of them."""

from collections.abc import Callable

import msgspec

from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.triggers import Trigger
from shared.engine.automation.triggers import Arrived, Broken, react
from shared.errors import Corrupt
from shared.events import request as requests
from shared.events.bounds import EXECUTION_ID, MAX_LETTER_BYTES, MAX_PATH, MAX_REQUEST_REASON, MAX_VERSION
from shared.events.fields import Parent
from shared.events.letter import read, write
from shared.events.request import Control, Request
from tests.property.fuzz.byte_changes import document
from tests.property.fuzz.runner import Fuzzer, Seen

PARENT = Parent(
    execution_id="x1", run_id="start:1", wait="wait-1", index=-1, returns="last", iter={"item": 1}, depth=2,
    detached=True,
)
WHOLE = Request(
    path="a/b", version="1.0", payload={"a": [1, {"b": "ü"}]}, execution_id="x-1", parent=None, priority=3,
    labels={"team": "data"}, by="ada",
)
EXAMPLES = tuple(map(msgspec.json.encode, (
    WHOLE, Request("a/b"), msgspec.structs.replace(WHOLE, parent=PARENT),
    Control("x-1", "late", "ada", 10.0, "go", {"ok": True}), Control("x-1"), {"id": 7, "total": 5.5, "text": "order"},
)))
TRIGGER = compile_document("""\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: orders}
spec: {playbook: {path: a/b}, subject: orders.new, mapping: {id: "{{ message.data.id }}", all: "{{ message.data }}"}}
""", kind="Trigger").document


def promise(data: bytes) -> Seen:
    return Seen([_tried(each, data) for each in (_request, _child, _control, _message)])


def _tried(take: Callable[[bytes], str], data: bytes) -> str:
    try:
        return take(data)
    except Corrupt as error:
        return _buried(str(error), data)


def _buried(reason: str, data: bytes) -> str:
    letter = write("NOETL_REQUESTS/1", reason, data, subject="noetl.requests.execute", headers={"A": "b"})
    note = read(letter)
    assert len(letter) <= MAX_LETTER_BYTES
    assert note is not None
    assert note.reason.isprintable()
    assert note.size == len(data)
    assert not note.whole or note.excerpt.encode() == data
    return "Corrupt"


def _request(data: bytes) -> str:
    request = requests.decode(data)
    assert request.parent is None
    assert 0 < len(request.path) <= MAX_PATH
    assert len(request.version) <= MAX_VERSION
    assert not request.execution_id or EXECUTION_ID.fullmatch(request.execution_id)
    assert requests.decode(msgspec.json.encode(request)) == request
    return "request"


def _child(data: bytes) -> str:
    request, reason = requests.decode_child(data)
    assert request.parent is not None
    assert EXECUTION_ID.fullmatch(request.execution_id)
    return "wrong child" if reason else "child"


def _control(data: bytes) -> str:
    asked = requests.decode_control(data)
    assert EXECUTION_ID.fullmatch(asked.execution_id)
    assert len(asked.reason) <= MAX_REQUEST_REASON
    return "wish"


def _message(data: bytes) -> str:
    assert isinstance(TRIGGER, Trigger)
    made = react(TRIGGER, Arrived("orders.new", data, {}, ("S", 1, 1)))
    if isinstance(made, Broken):
        return _buried(made.reason, data)
    return "fires" if made is not None else "filtered"


FUZZER = Fuzzer(
    "requests", lambda chance: document(chance, EXAMPLES), promise,
    frozenset(("request", "child", "wrong child", "wish", "fires", "Corrupt")), most_s=0.5,
)
