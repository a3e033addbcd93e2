"""An execution request, as any NATS client publishes it (FS §3.1), and the id it gets."""

import hashlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from shared import visible
from shared.errors import Corrupt
from shared.events import labels as labelling
from shared.events.bounds import (
    ASKED_ID,
    DERIVED_ID,
    EXECUTION_ID,
    MAX_NESTING,
    MAX_PATH,
    MAX_REQUEST_BY,
    MAX_REQUEST_REASON,
    MAX_STEP_NAME,
    MAX_VERSION,
    is_deep,
)
from shared.events.decoding import read
from shared.events.fields import MAX_PRIORITY, Parent
from shared.events.headers import request_id

MAX_REQUEST_BYTES = 524_288
MAX_CONTROL_BYTES = 131_072
MAX_GRACE_S = 86_400.0  # more than 300 s counts as 300 s
MAX_SHOWN = 60  # characters of a field's name in a reason
WRONG_ID = "execution_id may hold letters, digits, _ and -, at most 64"
FIRST_OF_ID = f"{WRONG_ID}, and does not begin with -"
OWN_ID = (
    "an execution_id of 20 digits from 0 to f is the engine's own, which it derives: leave it out, or take another "
    "form (a UUID, a prefix)"
)
T = TypeVar("T")


class Request(Struct, frozen=True, omit_defaults=True):
    """Names its playbook by `path` and `version`, or by `playbook_id`, the digest of its source or `path@version`.
    `parent` is the scheduler's, and comes on a subject of its own: who waits for the execution. `priority` is the
    playbook's unless given. `by` is who asks, for the log. `refused` is the scheduler's too: why it starts
    nothing, for whoever waits for it."""

    path: str = ""
    version: str = ""
    payload: dict[str, Any] = {}
    execution_id: str = ""
    parent: Parent | None = None
    priority: int | None = None
    labels: dict[str, str] = {}
    by: str = ""
    refused: str = ""
    playbook_id: str = ""


class Control(Struct, frozen=True, omit_defaults=True):
    """What someone wants of an existing execution. `name` and `payload` are a signal's; of a rerun, `name`
    is the step to continue from; none: from what failed; and `version` that of the playbook to continue with, or
    `latest`; none: as it was."""

    execution_id: str
    reason: str = ""
    by: str = ""
    grace_s: float = 10.0
    name: str = ""
    payload: Any = None
    version: str = ""


BY_EXECUTION = "execution "  # and its id: who asks, when a scheduler does for one
OURS = frozenset({"parent", "refused"})  # fields that only the engine fills in
_decoder = msgspec.json.Decoder(Request)
_control = msgspec.json.Decoder(Control)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode(data: bytes) -> Request:
    """As anyone may ask. Corrupt names what is wrong with the request."""
    request = _without_parent(data)
    if is_derived(request.execution_id):
        raise Corrupt(OWN_ID)
    return request


def decode_derived(data: bytes) -> Request:
    """As schedules and triggers ask, and whoever replays a letter: under the id that follows from the cause."""
    request = _without_parent(data)
    if not is_derived(request.execution_id):
        raise Corrupt("a request here needs the `execution_id` that was derived for it")
    return request


def _without_parent(data: bytes) -> Request:
    request = _decoded(_decoder, data, MAX_REQUEST_BYTES, '{"path": "…", "payload": {}}')
    if reason := wrong(request, data) or unknown(data, Request):
        raise Corrupt(reason)
    if request.parent is not None or request.refused:
        raise Corrupt("`parent` and `refused` are for the engine to say: nobody is a child because someone asks so")
    return request


def decode_child(data: bytes) -> tuple[Request, str]:
    """A scheduler's request for a child, and what is wrong with it: a parent waits for an answer. Corrupt if none
    does."""
    request = _decoded(_decoder, data, MAX_REQUEST_BYTES, '{"path": "…", "parent": {}}')
    if request.parent is None or not request.execution_id:
        raise Corrupt("a request for a child needs `parent` and `execution_id`")
    _check_id(request.execution_id)
    return request, wrong(request, data)


def wrong(request: Request, data: bytes) -> str:
    """Why it can start no execution; empty if it can."""
    if not request.path and not request.playbook_id:
        return "a request needs `path`, the registered path of a playbook, or `playbook_id`"
    if request.playbook_id and (request.path or request.version):
        return "a request names its playbook by `path` and `version` or by `playbook_id`, not by both"
    for name, value, most in (
        ("path", request.path, MAX_PATH), ("version", request.version, MAX_VERSION), ("by", request.by, MAX_REQUEST_BY),
        ("playbook_id", request.playbook_id, MAX_PATH + MAX_VERSION + 1),
    ):
        if len(value) > most:
            return f"`{name}` has {len(value)} characters; the limit is {most}"
        if not value.isprintable():
            return f"`{name}` has characters that cannot be printed"
    if request.execution_id and not ASKED_ID.fullmatch(request.execution_id):
        return FIRST_OF_ID
    if request.priority is not None and not 0 <= request.priority <= MAX_PRIORITY:
        shown = request.priority if request.priority.bit_length() < 64 else "of many digits"
        return f"priority {shown} is not a whole number from 0 to {MAX_PRIORITY}"
    return labelling.wrong(request.labels) or too_deep(data)


def unknown(data: bytes, shape: type[Struct]) -> str:
    """A field that nobody reads is a mistake of whoever wrote it: it would be missed, and nobody would say so. Corrupt
    when not even its name can be read."""
    known = shape.__struct_fields__
    for name in read(_fields, data, "a request with fields", MAX_REQUEST_BYTES):
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(sorted(set(known) - OURS))}"
            return f"a request has no field `{visible.line(name[:MAX_SHOWN])}`: {hint}"
    return ""


def too_deep(data: bytes) -> str:
    return f"lists and mappings stand within each other more than {MAX_NESTING} times" if is_deep(data) else ""


def decode_control(data: bytes) -> Control:
    asked = _decoded(_control, data, MAX_CONTROL_BYTES, '{"execution_id": "…", "reason": "…"}')
    _check_id(asked.execution_id)
    if reason := unknown(data, Control):
        raise Corrupt(reason)
    for name, value, most in (
        ("reason", asked.reason, MAX_REQUEST_REASON), ("by", asked.by, MAX_REQUEST_BY),
        ("name", asked.name, MAX_STEP_NAME), ("version", asked.version, MAX_VERSION),
    ):
        if len(value) > most:
            raise Corrupt(f"`{name}` has {len(value)} characters; the limit is {most}")
    if not 0 <= asked.grace_s <= MAX_GRACE_S:
        raise Corrupt(f"grace_s is not a number of seconds from 0 to {MAX_GRACE_S:g}")
    if reason := too_deep(data):
        raise Corrupt(reason)
    return asked


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes, limit: int, example: str) -> T:
    if len(data) > limit:
        raise Corrupt(f"a request of {len(data)} bytes; the limit is {limit}: pass a reference instead")
    try:
        return read(decoder, data, f"a request, which must be JSON like {example},", limit)
    except Corrupt as error:
        if "at `$.payload`" in str(error):  # FS §3.2: it is merged into the workload, key by key
            raise Corrupt(f"{error}: the payload is a mapping, whose keys replace those of the workload; give another "
                          'value a name, as {"payload": {"items": [1]}}') from None
        raise


def _check_id(execution_id: str) -> None:
    if not EXECUTION_ID.fullmatch(execution_id):
        raise Corrupt(WRONG_ID)


def derive_id(*parts: object) -> str:
    """The execution id of a request that brings none: the same cause gives the same id. It is of a form that nobody
    can ask for."""
    text = "\x00".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def default_id(headers: Mapping[str, str] | None, epoch: int, seq: int) -> str:
    """The execution id of a request that names none: from its own id, or from its place in the stream of requests."""
    own = request_id(headers)
    return derive_id("id", own) if own else derive_id("seq", epoch, seq)


def is_derived(execution_id: str) -> bool:
    return DERIVED_ID.fullmatch(execution_id) is not None
