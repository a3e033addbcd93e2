"""Who learns that a request is refused: its sender, at the inbox that it named. If it named none, everybody who looks:
a request for an execution that has an id becomes an execution that has failed with the reason, and is found under its
id. All others are dead letters."""

import re

import msgspec

from shared.bus.ports import Delivery
from shared.events import subjects
from shared.events.bounds import ASKED_ID, MAX_PATH, MAX_REQUEST_BY, MAX_VERSION
from shared.events.headers import REPLY_TO, request_id
from shared.events.request import MAX_REQUEST_BYTES, OURS, Request, is_derived

# Where an answer may go, and nowhere else: the router may write where the caller may not.
INBOX = re.compile(subjects.INBOX + r"[A-Za-z0-9_-]{0,128}(\.[A-Za-z0-9_-]{1,128}){1,8}")
REPLY = re.compile(re.escape(subjects.REPLIES) + r"(\.[A-Za-z0-9]{1,64}){1,2}")  # of a caller in another account
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)


def is_inbox(subject: str) -> bool:
    return INBOX.fullmatch(subject) is not None or REPLY.fullmatch(subject) is not None


def has_inbox(delivery: Delivery) -> bool:
    return is_inbox((delivery.headers or {}).get(REPLY_TO, ""))


def to_start(delivery: Delivery) -> Request | None:
    """The execution that a request which cannot be used becomes: who it is and what it would have run, as far as that
    can be read. None: its sender is told, or it has no id."""
    if delivery.subject != subjects.EXECUTE or has_inbox(delivery):
        return None
    given = _texts(delivery.data)
    if given is None:
        return None
    execution_id = given.get("execution_id", "")
    if not ASKED_ID.fullmatch(execution_id) or is_derived(execution_id):
        execution_id = ""
    if not execution_id and not request_id(delivery.headers):
        return None
    return Request(
        _short(given, "path", MAX_PATH), _short(given, "version", MAX_VERSION), execution_id=execution_id,
        by=_short(given, "by", MAX_REQUEST_BY))


def _texts(data: bytes) -> dict[str, str] | None:
    """The fields that hold text, of whatever can be read. None: it says what only the engine may say, which is no
    mistake of a publisher."""
    try:
        fields = _fields.decode(data) if len(data) <= MAX_REQUEST_BYTES else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if OURS & fields.keys():
        return None
    found = {}
    for name in ("path", "version", "execution_id", "by"):
        try:
            found[name] = _text.decode(fields[name])
        except (KeyError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


def _short(given: dict[str, str], name: str, most: int) -> str:
    value = given.get(name, "")
    return value[:most] if value.isprintable() else ""
