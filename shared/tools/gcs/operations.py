"""The operations of `kind: gcs`, each a function of the API and the task's keys."""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from shared.events.outcome import failed
from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall
from shared.tools.gcs.access import API, UPLOAD, bucket_place, object_place
from shared.tools.gcs.client import Api, RequestFailed
from shared.tools.gcs.data import (
    MAX_LISTED,
    Content,
    Object,
    bucket_of,
    content,
    custom,
    decoded,
    destination_of,
    encoding_of,
    object_of,
    text,
)

CALL_KEY = "noetl-call"  # metadata of what was uploaded with if_absent: which call it was
_OK = {"status": "success"}
_GONE = {"status": "not_found"}
_ITEM = "name,size,contentType,updated,generation"

Operation = Callable[[Api, Call], Awaitable[dict[str, Any]]]


async def upload(api: Api, call: Call) -> dict[str, Any]:
    """One request with the content and what is said of it, so that neither is there without the other. The server
    compares the content with its checksum."""
    at, what = object_of(call), content(call)
    absent = _flag(call, "if_absent")
    marks = {CALL_KEY: hashlib.sha256(call.idempotency_key.encode()).hexdigest()} if absent else {}
    kind, body = _multipart(at, what, {**custom(call), **marks})
    query = {"uploadType": "multipart", "name": at.name, "ifGenerationMatch": "0" if absent else None}
    try:
        made = (await api.ask("POST", UPLOAD + bucket_place(at.bucket), query, body, kind)).json()
    except RequestFailed as error:
        if error.status != 412 or not absent:
            raise
        made = await _ours(api, at, marks[CALL_KEY])
    return {**_OK, **at.told(), **_facts(made)}


async def _ours(api: Api, at: Object, mark: str) -> dict[str, Any]:
    """The object that is there already, if this very call made it and its answer was lost. Who may only create
    objects cannot know, and who finds it gone was too late all the same."""
    found: dict[str, Any] = {}
    try:
        found = (await api.ask("GET", _path(at))).json()
    except RequestFailed as error:
        if error.status not in (401, 403, 404):
            raise
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and metadata.get(CALL_KEY) == mark:
        return found
    message = f"there is an object {at.uri} already, and if_absent is set"
    raise RequestFailed(failed("gcs", message, details={"code": "precondition_failed", "status": 412}), 412)


def _multipart(at: Object, what: Content, metadata: Mapping[str, str]) -> tuple[str, bytes]:
    md5 = base64.b64encode(hashlib.md5(what.data, usedforsecurity=False).digest()).decode()
    about = {"name": at.name, "contentType": what.kind, "md5Hash": md5, **({"metadata": metadata} if metadata else {})}
    boundary = hashlib.sha256(what.data).hexdigest()  # no content holds its own hash
    head = (f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode()
            + msgspec.json.encode(about)
            + f"\r\n--{boundary}\r\nContent-Type: {what.kind}\r\n\r\n".encode())
    return f"multipart/related; boundary={boundary}", b"".join((head, what.data, f"\r\n--{boundary}--\r\n".encode()))


async def download(api: Api, call: Call) -> dict[str, Any]:
    at, encoding = object_of(call), encoding_of(call)
    answer = await api.ask("GET", _path(at), {"alt": "media"})
    kind = answer.headers.get("content-type", "")
    try:
        found, data = decoded(answer.body, kind, encoding)
    except ValueError as error:
        raise RequestFailed(failed("decode", f"{at.uri} is not {error}: say with encoding what it is")) from None
    return {**_OK, **at.told(), "data": data, "encoding": found, "content_type": kind, "size": len(answer.body),
            "generation": answer.headers.get("x-goog-generation")}


async def names(api: Api, call: Call) -> dict[str, Any]:
    bucket = bucket_of(call)
    query = {"prefix": text(call, "prefix"), "delimiter": text(call, "delimiter"),
             "pageToken": text(call, "page_token"), "maxResults": _count(call.config.get("max_results")),
             "fields": f"items({_ITEM}),prefixes,nextPageToken"}
    found = (await api.ask("GET", API + bucket_place(bucket), query)).json()
    objects = [Object(bucket, str(each.get("name"))).told() | _facts(each) for each in found.get("items") or ()]
    return {**_OK, "bucket": bucket, "objects": objects, "count": len(objects),
            "prefixes": list(found.get("prefixes") or ()), "next_page_token": found.get("nextPageToken")}


async def delete(api: Api, call: Call) -> dict[str, Any]:
    """Again: it is gone already."""
    at = object_of(call)
    try:
        await api.ask("DELETE", _path(at))
    except RequestFailed as error:
        if error.status != 404:
            raise
        return {**_GONE, **at.told(), "deleted": False}
    return {**_OK, **at.told(), "deleted": True}


async def copy(api: Api, call: Call) -> dict[str, Any]:
    """Large objects take several requests, each with the token of the one before."""
    at = object_of(call)
    to = destination_of(call, at.bucket)
    path = f"{_path(at)}/rewriteTo{object_place(to.bucket, to.name)}"
    token = None
    while True:
        found = (await api.ask("POST", path, {"rewriteToken": token})).json()
        token = found.get("rewriteToken")
        if found.get("done") or not token:
            return {**_OK, **to.told(), "source": at.uri, **_facts(found.get("resource") or {})}


async def exists(api: Api, call: Call) -> dict[str, Any]:
    at = object_of(call)
    try:
        found = (await api.ask("GET", _path(at))).json()
    except RequestFailed as error:
        if error.status != 404:
            raise
        return {**_GONE, **at.told(), "exists": False}
    return {**_OK, **at.told(), "exists": True, **_facts(found)}


def _path(at: Object) -> str:
    return API + object_place(at.bucket, at.name)


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    size = str(found.get("size"))
    return {"size": int(size) if size.isdecimal() else None, "content_type": found.get("contentType"),
            "updated": found.get("updated"), "generation": found.get("generation")}


def _flag(call: Call, name: str) -> bool:
    value = call.config.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadCall(f"{name} must be true or false")
    return bool(value)


def _count(value: Any) -> int:
    if value is None:
        return MAX_LISTED
    if isinstance(value, bool) or not str(value).isdecimal() or not 1 <= int(value) <= MAX_LISTED:
        raise BadCall(f"max_results must be a whole number from 1 to {MAX_LISTED}")
    return int(value)


OPERATIONS: Mapping[str, Operation] = {
    "upload": upload, "put": upload, "download": download, "get": download, "list": names, "delete": delete,
    "copy": copy, "exists": exists,
}
