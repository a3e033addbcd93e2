"""What the keys of `kind: gcs` say: which object, with which content."""

import base64
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.tools.base.contract import RESULT_LIMIT, Call
from shared.tools.base.guard import BadCall, TooLarge, mapping, one_of
from shared.tools.http import data as http_data

SCHEME = "gs://"
OBJECT_KEYS = ("object", "path", "key", "uri")
DATA_KEYS = ("data", "value", "content")
ENCODINGS = ("text", "json", "base64")
MAX_LISTED = 1_000   # names of one list
MAX_NAME = 1024      # bytes of an object's name, as the storage has it
MAX_METADATA = 8192  # bytes of names and values, as the storage has it
TEXT, JSON, BYTES = "text/plain; charset=utf-8", "application/json", "application/octet-stream"

_BUCKET = re.compile(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_KIND = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}\Z")


class Object(msgspec.Struct, frozen=True):
    bucket: str
    name: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.name}"

    def told(self) -> dict[str, str]:
        return {"uri": self.uri, "bucket": self.bucket, "object": self.name}


class Content(msgspec.Struct, frozen=True):
    data: bytes
    kind: str


def object_of(call: Call) -> Object:
    given = one_of(call.config, *OBJECT_KEYS)
    if given is None:
        raise BadCall("say which object: uri: gs://bucket/object, or bucket and object")
    key, name = given
    bucket = call.config.get("bucket")
    if key == "uri" and not str(name).startswith(SCHEME):
        raise BadCall("uri must be gs://bucket/object")
    return _object(key, name, bucket)


def destination_of(call: Call, bucket: str) -> Object:
    """Where a copy goes: gs://bucket/object, or a name in the bucket of the original."""
    given = call.config.get("destination")
    if given is None:
        raise BadCall("copy needs destination: gs://bucket/object, or a name in the same bucket")
    return _object("destination", given, None if str(given).startswith(SCHEME) else bucket)


def bucket_of(call: Call) -> str:
    """The bucket to list: `bucket`, or gs://bucket as `uri`."""
    given = one_of(call.config, "bucket", "uri")
    name = str(given[1]) if given else ""
    if given and given[0] == "uri":
        name, _, rest = name.removeprefix(SCHEME).partition("/")
        if rest:
            raise BadCall("uri must be gs://bucket to list it; what names begin with is prefix")
    return _checked(name)


def _object(key: str, given: Any, bucket: Any) -> Object:
    if not isinstance(given, str):
        raise BadCall(f"{key} must be text")
    if given.startswith(SCHEME):
        found, _, name = given.removeprefix(SCHEME).partition("/")
        if bucket is not None and bucket != found:
            raise BadCall(f"bucket and {key} name two buckets")
    else:
        found, name = str(bucket or ""), given
    if not name or name in (".", "..") or len(name.encode()) > MAX_NAME or _CONTROL.search(name):
        raise BadCall(f"{key} has no name an object can have: 1 to {MAX_NAME} bytes without control characters")
    return Object(_checked(found), name)


def _checked(bucket: str) -> str:
    if not _BUCKET.match(bucket):
        raise BadCall("bucket must be 3 to 222 lower-case letters, digits and -_.")
    return bucket


def content(call: Call) -> Content:
    """Text goes as it is and anything else as JSON; with `encoding` base64 the bytes the text stands for, with
    json also a text as JSON."""
    given = one_of(call.config, *DATA_KEYS)
    if given is None:
        raise BadCall(f"upload needs {DATA_KEYS[0]}: text, or any value, which goes as JSON")
    key, value = given
    match encoding_of(call):
        case "base64":
            data, kind = _bytes(key, value), BYTES
        case "json":
            data, kind = msgspec.json.encode(value), JSON
        case "text" if not isinstance(value, str):
            raise BadCall(f"{key} is not text: leave encoding out to store it as JSON")
        case _:
            data, kind = (value.encode(), TEXT) if isinstance(value, str) else (msgspec.json.encode(value), JSON)
    if len(data) > RESULT_LIMIT:
        raise TooLarge(f"{key} is over {RESULT_LIMIT} bytes")
    own = call.config.get("content_type")
    if own is not None and (not isinstance(own, str) or not _KIND.match(own)):
        raise BadCall("content_type must be text such as text/csv")
    return Content(data, own or kind)


def _bytes(key: str, value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise BadCall(f"{key} is not base64") from None


def decoded(body: bytes, kind: str, encoding: str | None) -> tuple[str, Any]:
    """What an object holds, and as what it was read: as `encoding` says, or else the content type."""
    encoding = encoding or _told(kind)
    try:
        match encoding:
            case "json":
                return encoding, msgspec.json.decode(body)
            case "text":
                return encoding, body.decode()
            case _:
                return encoding, base64.b64encode(body).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ValueError("JSON" if encoding == "json" else "text in UTF-8") from None


def _told(kind: str) -> str:
    kind = kind.partition(";")[0].strip().lower()
    if kind == JSON or kind.endswith("+json"):
        return "json"
    return "text" if kind.startswith("text/") or kind.endswith("+xml") or kind in http_data.TEXT_TYPES else "base64"


def encoding_of(call: Call) -> str | None:
    given = one_of(call.config, "encoding", "as")
    if given is None:
        return None
    if given[1] not in ENCODINGS:
        raise BadCall(f"{given[0]} must be one of {', '.join(ENCODINGS)}")
    return str(given[1])


def text(call: Call, name: str) -> str | None:
    value = call.config.get(name)
    if value is not None and not isinstance(value, str):
        raise BadCall(f"{name} must be text")
    return value


def custom(call: Call) -> Mapping[str, str]:
    """`metadata`: texts by name; other single values as JSON writes them."""
    found = {str(name): value if isinstance(value, str) else msgspec.json.encode(value).decode()
             for name, value in mapping(call.config, "metadata").items() if value is not None}
    if sum(len(name.encode()) + len(value.encode()) for name, value in found.items()) > MAX_METADATA:
        raise TooLarge(f"metadata is over {MAX_METADATA} bytes")
    return found
