"""The operations of `kind: nats`, each a function of a connection and the task's keys."""

import asyncio
import base64
import contextlib
import fnmatch
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from shared.errors import ToolError
from shared.events import subjects
from shared.events.headers import MESSAGE_ID
from shared.tools.base.contract import RESULT_LIMIT, Call
from shared.tools.base.guard import BadCall, TooLarge, mapping, one_of, time_limit
from shared.tools.nats.links import Link

if TYPE_CHECKING:
    from nats.js.client import JetStreamContext

API_TIMEOUT_S = 5.0  # for an answer of JetStream
MAX_KEYS = 10_000    # keys or objects listed
_CONTENT = ("value", "data", "payload", "message")
_OK = {"status": "success"}
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+\Z")


class NotAllowed(ToolError):
    """The server does not let this user do it."""


class Operation(Struct, frozen=True):
    """`own`: it subscribes or sends many messages, so it gets a connection of its own."""

    run: Callable[[Link, Call], Coroutine[Any, Any, dict[str, Any]]]
    own: bool = False


def text(call: Call, name: str) -> str:
    value = call.config.get(name)
    if not isinstance(value, str) or not value:
        raise BadCall(f"{name} must be text")
    return value


def content(call: Call) -> bytes:
    """Text goes as it is, anything else as JSON; with `encoding: base64` the bytes the text stands for."""
    given = one_of(call.config, *_CONTENT)
    value = given[1] if given else ""
    if call.config.get("encoding") == "base64":
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise BadCall("the content is not base64") from None
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    if len(data) > RESULT_LIMIT:
        raise TooLarge(f"the content is over {RESULT_LIMIT} bytes")
    return data


def decoded(call: Call, data: bytes | None) -> Any:
    """As `encoding` says; unless it is given, a mapping or list in JSON is a value and everything else text."""
    data = data or b""
    encoding = call.config.get("encoding")
    if encoding == "base64":
        return base64.b64encode(data).decode()
    try:
        if encoding == "json" or (encoding is None and data[:1] in (b"{", b"[")):
            return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if encoding == "json":
            raise BadCall("what was read is not JSON") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadCall("what was read is not text: add encoding: base64") from None


def _js(link: Link) -> "JetStreamContext":
    return link.client.jetstream(timeout=API_TIMEOUT_S)


def _entry(call: Call) -> dict[str, str]:
    key = text(call, "key")
    if not _KEY.match(key) or key[0] == "." or key[-1] == ".":
        raise BadCall("key must be letters, digits and -/_=. with no dot at its ends")
    return {"bucket": text(call, "bucket"), "key": key}


async def _kv_get(link: Link, call: Call) -> dict[str, Any]:
    from nats.js.errors import KeyNotFoundError

    at = _entry(call)
    bucket = await _js(link).key_value(at["bucket"])
    try:
        entry = await bucket.get(at["key"])
    except KeyNotFoundError:
        return {"status": "not_found", **at, "value": None, "revision": None}
    return {**_OK, **at, "value": decoded(call, entry.value), "revision": entry.revision}


async def _kv_put(link: Link, call: Call) -> dict[str, Any]:
    at, js, data = _entry(call), _js(link), content(call)
    bucket = await js.key_value(at["bucket"])
    ttl = call.config.get("ttl")
    if ttl is None:
        return {**_OK, **at, "revision": await bucket.put(at["key"], data)}
    if isinstance(ttl, bool) or not str(ttl).isdecimal() or int(ttl) < 1:
        raise BadCall("ttl must be a whole number of seconds")
    ack = await js.publish(subjects.key(at["bucket"], at["key"]), data, msg_ttl=int(ttl))
    return {**_OK, **at, "revision": ack.seq}


async def _kv_delete(link: Link, call: Call) -> dict[str, Any]:
    at = _entry(call)
    await (await _js(link).key_value(at["bucket"])).delete(at["key"])
    return {**_OK, **at}


async def _kv_purge(link: Link, call: Call) -> dict[str, Any]:
    at = _entry(call)
    await (await _js(link).key_value(at["bucket"])).purge(at["key"])
    return {**_OK, **at}


async def _kv_keys(link: Link, call: Call) -> dict[str, Any]:
    name, pattern = text(call, "bucket"), call.config.get("pattern")
    watcher = await (await _js(link).key_value(name)).watchall(ignore_deletes=True, meta_only=True)
    keys: list[str] = []
    async for entry in watcher:
        if entry is None:  # that is all there is now
            break
        if pattern is None or fnmatch.fnmatchcase(entry.key, str(pattern)):
            keys.append(entry.key)
        if len(keys) > MAX_KEYS:
            raise TooLarge(f"more than {MAX_KEYS} keys: give a pattern")
    return {**_OK, "bucket": name, "keys": sorted(keys), "count": len(keys)}


async def _object_put(link: Link, call: Call) -> dict[str, Any]:
    at = {"bucket": text(call, "bucket"), "key": text(call, "key")}
    info = await (await _js(link).object_store(at["bucket"])).put(at["key"], content(call))
    return {**_OK, **at, "size": info.size, "digest": info.digest}


async def _object_get(link: Link, call: Call) -> dict[str, Any]:
    from nats.js.errors import ObjectNotFoundError

    at = {"bucket": text(call, "bucket"), "key": text(call, "key")}
    store = await _js(link).object_store(at["bucket"])
    try:
        info = await store.get_info(at["key"])
        if (info.size or 0) > RESULT_LIMIT:
            raise TooLarge(f"the object has {info.size} bytes, over {RESULT_LIMIT}")
        found = await store.get(at["key"])
    except ObjectNotFoundError:
        return {"status": "not_found", **at, "data": None, "size": None}
    return {**_OK, **at, "data": decoded(call, found.data), "size": info.size}


async def _object_delete(link: Link, call: Call) -> dict[str, Any]:
    from nats.js.errors import ObjectNotFoundError

    at = {"bucket": text(call, "bucket"), "key": text(call, "key")}
    with contextlib.suppress(ObjectNotFoundError):  # again: it is gone already
        await (await _js(link).object_store(at["bucket"])).delete(at["key"])
    return {**_OK, **at}


async def _publish(link: Link, call: Call) -> dict[str, Any]:
    subject = text(call, "subject")
    with link.refusal(subject) as refusal:
        await link.client.publish(subject, content(call), headers=_headers(call))
        for _ in range(2):  # nats-py sends the first ping ahead of the message; a refusal comes before the second pong
            await link.client.flush()
        if refusal.done():
            raise NotAllowed(refusal.result())
    return {**_OK, "subject": subject}


async def _request(link: Link, call: Call) -> dict[str, Any]:
    subject = text(call, "subject")
    asking: asyncio.Future[Any] = asyncio.ensure_future(
        link.client.request(subject, content(call), timeout=time_limit(call) + 1, headers=_headers(call)))
    with link.refusal(subject) as refusal:
        try:
            await asyncio.wait({asking, refusal}, return_when=asyncio.FIRST_COMPLETED)
            if refusal.done():
                raise NotAllowed(refusal.result())
            answer = asking.result()
        finally:
            asking.cancel()
            await asyncio.wait({asking})
    return {**_OK, "subject": subject, "data": decoded(call, answer.data), "headers": dict(answer.headers or {})}


async def _js_publish(link: Link, call: Call) -> dict[str, Any]:
    """The same call again is the same message: the stream drops it within its window."""
    headers = {MESSAGE_ID: call.idempotency_key, **(_headers(call) or {})}
    stream = call.config.get("stream")
    ack = await _js(link).publish(text(call, "subject"), content(call), headers=headers,
                                  stream=None if stream is None else text(call, "stream"))
    return {**_OK, "stream": ack.stream, "seq": ack.seq, "duplicate": bool(ack.duplicate)}


async def _js_get_msg(link: Link, call: Call) -> dict[str, Any]:
    given = one_of(call.config, "seq", "subject")
    if given is None:
        raise BadCall("js_get_msg needs seq, or subject for its last message")
    stream = text(call, "stream")
    if given[0] == "seq" and (isinstance(given[1], bool) or not str(given[1]).isdecimal()):
        raise BadCall("seq must be a whole number")
    which = {"seq": int(given[1])} if given[0] == "seq" else {"subject": text(call, "subject")}
    found = await _js(link).get_msg(stream, **which)
    return {**_OK, "stream": stream, "subject": found.subject, "seq": found.seq, "data": decoded(call, found.data),
            "headers": dict(found.headers or {})}


def _headers(call: Call) -> dict[str, str] | None:
    return {str(name): str(value) for name, value in mapping(call.config, "headers").items()} or None


OPERATIONS: Mapping[str, Operation] = {
    "kv_get": Operation(_kv_get),
    "kv_put": Operation(_kv_put),
    "kv_delete": Operation(_kv_delete),
    "kv_purge": Operation(_kv_purge),
    "kv_keys": Operation(_kv_keys, own=True),
    "object_get": Operation(_object_get, own=True),
    "object_put": Operation(_object_put, own=True),
    "object_delete": Operation(_object_delete, own=True),
    "publish": Operation(_publish),
    "request": Operation(_request),
    "js_publish": Operation(_js_publish),
    "js_get_msg": Operation(_js_get_msg),
}
