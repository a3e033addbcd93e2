"""An execution request, as any NATS client publishes it (FS §3.1), and the id it gets."""

import hashlib
import re
from typing import Any

import msgspec
from msgspec import Struct

from shared.errors import Corrupt

ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_REQUEST_BYTES = 524_288


class Request(Struct, frozen=True, omit_defaults=True):
    path: str
    version: str = ""
    payload: dict[str, Any] = {}
    execution_id: str = ""


_decoder = msgspec.json.Decoder(Request)


def decode(data: bytes) -> Request:
    """Corrupt names what is wrong with the request."""
    if len(data) > MAX_REQUEST_BYTES:
        raise Corrupt(f"a request of {len(data)} bytes; the limit is {MAX_REQUEST_BYTES}: pass a reference instead")
    try:
        request = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f'a request must be JSON like {{"path": "…", "payload": {{}}}}: {error}') from None
    if not request.path:
        raise Corrupt("a request needs `path`, the registered path of a playbook")
    if request.execution_id and not ID_PATTERN.fullmatch(request.execution_id):
        raise Corrupt(f"execution_id {request.execution_id!r} may hold letters, digits, _ and -, at most 64")
    return request


def derive_id(*parts: object) -> str:
    """The execution id of a request that brings none: the same cause gives the same id."""
    text = "\x00".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
