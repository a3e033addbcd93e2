"""Key-value buckets as the streams they are: `$KV.<bucket>.<key>` in `KV_<bucket>`."""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from shared.bus.ports import Message
from shared.bus.subject import MAX_SHOWN, check_subject
from shared.errors import Refused
from shared.events import subjects
from shared.events.headers import KV_OPERATION, MARKER_REASON

_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")


def stream_of(bucket: str) -> str:
    return f"KV_{bucket}"


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def subject_of(bucket: str, key: str) -> str:
    if not is_key(key):
        raise Refused(f"not a key: {key[:MAX_SHOWN]!r}; encode it with encode_key")
    return check_subject(subjects.key(bucket, key))


def changes_of(bucket: str) -> str:
    """Where changes of the bucket are heard as they are made, by whoever listens just then."""
    return subjects.key(bucket)


def key_of(bucket: str, subject: str) -> str:
    return subject[len(subjects.KV) + len(bucket) + 2 :]


def is_deleted(headers: dict[str, str] | None) -> bool:
    return headers is not None and (KV_OPERATION in headers or MARKER_REASON in headers)


def encode_key(text: str) -> str:
    """Any text as one key token, readable where it can be: `examples/a.b` → `examples/a=2Eb`."""
    return quote(text, safe="/", errors="replace").replace(".", "%2E").replace("~", "%7E").replace("%", "=") or "="


def decode_key(key: str) -> str:
    return "" if key == "=" else unquote(key.replace("=", "%"))


def entries(bucket: str, messages: Iterable[Message]) -> dict[str, bytes]:
    """The value of each key, from the bucket's messages in order."""
    found: dict[str, bytes] = {}
    for message in messages:
        key = key_of(bucket, message.subject)
        if is_deleted(message.headers):
            found.pop(key, None)
        else:
            found[key] = message.data
    return found
