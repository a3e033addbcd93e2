"""An execution request, as any NATS client publishes it (FS §3.1), and the id it gets."""

import hashlib
import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from shared.errors import Corrupt
from shared.events import labels as labelling
from shared.events.parts import MAX_PRIORITY, Parent

ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_REQUEST_BYTES = 524_288
MAX_CONTROL_BYTES = 131_072
MAX_BY = 256
T = TypeVar("T")


class Request(Struct, frozen=True, omit_defaults=True):
    """`parent` is the scheduler's: who waits for the execution. `priority` is the playbook's unless given. `by` is
    who asks, as the log will say."""

    path: str
    version: str = ""
    payload: dict[str, Any] = {}
    execution_id: str = ""
    parent: Parent | None = None
    priority: int | None = None
    labels: dict[str, str] = {}
    by: str = ""


class Control(Struct, frozen=True, omit_defaults=True):
    """What someone wants of an execution that is there. `name` and `payload` are a signal's; of a rerun, `name`
    is the step to go on from: none means, what failed."""

    execution_id: str
    reason: str = ""
    by: str = ""
    grace_s: float = 10.0
    name: str = ""
    payload: Any = None


_decoder = msgspec.json.Decoder(Request)
_control = msgspec.json.Decoder(Control)


def decode(data: bytes) -> Request:
    """Corrupt names what is wrong with the request."""
    request = _decoded(_decoder, data, MAX_REQUEST_BYTES, '{"path": "…", "payload": {}}')
    if not request.path:
        raise Corrupt("a request needs `path`, the registered path of a playbook")
    if request.execution_id:
        _check_id(request.execution_id)
    if request.priority is not None and not 0 <= request.priority <= MAX_PRIORITY:
        raise Corrupt(f"priority {request.priority} is not a whole number from 0 to {MAX_PRIORITY}")
    if reason := labelling.wrong(request.labels):
        raise Corrupt(reason)
    if len(request.by) > MAX_BY:
        raise Corrupt(f"`by` has {len(request.by)} characters; the limit is {MAX_BY}")
    return request


def decode_control(data: bytes) -> Control:
    asked = _decoded(_control, data, MAX_CONTROL_BYTES, '{"execution_id": "…", "reason": "…"}')
    _check_id(asked.execution_id)
    return asked


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes, limit: int, example: str) -> T:
    if len(data) > limit:
        raise Corrupt(f"a request of {len(data)} bytes; the limit is {limit}: pass a reference instead")
    try:
        return decoder.decode(data)
    except RecursionError:
        raise Corrupt("a request nested too deeply to be read") from None
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a request must be JSON like {example}: {error}") from None


def _check_id(execution_id: str) -> None:
    if not ID_PATTERN.fullmatch(execution_id):
        raise Corrupt(f"execution_id {execution_id!r} may hold letters, digits, _ and -, at most 64")


def derive_id(*parts: object) -> str:
    """The execution id of a request that brings none: the same cause gives the same id."""
    text = "\x00".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
