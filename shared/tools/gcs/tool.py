"""`kind: gcs`: objects in Google Cloud Storage, over its JSON API (FS §4.2). Every operation may be repeated."""

from collections.abc import Mapping
from typing import Any

from yarl import URL

from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import RESULT_LIMIT, Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, one_of
from shared.tools.gcs import access as gcs_access
from shared.tools.gcs import data as gcs_data

_OBJECT = frozenset(("bucket", *gcs_data.OBJECT_KEYS))
_ANY = frozenset(("operation", "action", "endpoint", "auth"))
_UPLOAD = _OBJECT | {*gcs_data.DATA_KEYS, "encoding", "as", "content_type", "metadata", "if_absent"}
_DOWNLOAD = _OBJECT | {"encoding", "as"}
KEYS: Mapping[str, frozenset[str]] = {  # of each operation, beside _ANY
    "upload": _UPLOAD, "put": _UPLOAD, "download": _DOWNLOAD, "get": _DOWNLOAD,
    "list": frozenset(("bucket", "uri", "prefix", "delimiter", "max_results", "page_token")),
    "delete": _OBJECT, "copy": _OBJECT | {"destination"}, "exists": _OBJECT,
}
_NAMES = tuple(KEYS)
_READING = frozenset({"download", "get", "list", "exists"})

SPEC = ToolSpec(
    kind="gcs",
    doc="One operation on objects in Google Cloud Storage. Result: {status, uri, bucket, object, …}.",
    keys={
        "operation": KeySpec(f"One of {', '.join(_NAMES)}; put is upload, get is download.", choices=_NAMES),
        "action": KeySpec("The same as operation.", choices=_NAMES),
        "auth": KeySpec("Credential: {token} or a service account (its JSON, or service_account_json). Without one the "
                        "request is anonymous."),
        "endpoint": KeySpec(f"Address of the server, {gcs_access.ENDPOINT} unless given."),
        "bucket": KeySpec("Name of the bucket."),
        "object": KeySpec("Name of the object in the bucket; also gs://bucket/object."),
        "path": KeySpec("The same as object."),
        "key": KeySpec("The same as object."),
        "uri": KeySpec("gs://bucket/object, instead of bucket and object. list: gs://bucket."),
        "data": KeySpec(f"upload: the content, {RESULT_LIMIT} bytes at most. Text goes as it is, the rest as JSON."),
        "value": KeySpec("The same as data."),
        "content": KeySpec("The same as data."),
        "encoding": KeySpec("download: as what the content is read; unless given, the content type says it. upload: "
                            "base64 says that data stands for bytes, json that a text goes as JSON too.",
                            choices=gcs_data.ENCODINGS),
        "as": KeySpec("The same as encoding.", choices=gcs_data.ENCODINGS),
        "content_type": KeySpec("upload: content type of the object; that of text, JSON or bytes unless given."),
        "metadata": KeySpec("upload: mapping of the author's own metadata."),
        "if_absent": KeySpec("upload: true fails with code precondition_failed if there is such an object."),
        "prefix": KeySpec("list: what names begin with."),
        "delimiter": KeySpec("list: names are cut after it, so / lists a folder; the cut ones are in prefixes."),
        "max_results": KeySpec(f"list: how many names, {gcs_data.MAX_LISTED} at most and unless given."),
        "page_token": KeySpec("list: next_page_token of the list before."),
        "destination": KeySpec("copy: gs://bucket/object, or a name in the same bucket."),
    },
    one_of=("operation", "action"),
    reads=lambda config, _spec: (config.get("operation") or config.get("action")) in _READING,
)


class GcsTool:
    def __init__(self, _options: ToolOptions) -> None:
        from shared.tools.gcs import client as gcs_client
        from shared.tools.gcs import operations as gcs_ops

        self._lib, self._operations = gcs_client, gcs_ops.OPERATIONS
        self._client = gcs_client.Client()

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await self._client.close()

    async def _run(self, call: Call) -> Outcome:
        operation = self._operations[_operation(call.config)]
        auth = call.auth or {}
        try:
            return ok(await operation(self._lib.Api(self._client, _endpoint(call.config), auth), call))
        except self._lib.RequestFailed as error:
            return error.outcome


def _operation(config: Mapping[str, Any]) -> str:
    given = one_of(config, "operation", "action")
    name = str(given[1]) if given else ""
    if name not in KEYS:
        raise BadCall(f"operation must be one of {', '.join(_NAMES)}")
    if stray := sorted(key for key in SPEC.keys.keys() & config.keys() - KEYS[name] - _ANY
                       if config[key] is not None):
        raise BadCall(f"{name} takes no {', '.join(stray)}; it takes {', '.join(sorted(KEYS[name]))}")
    return name


def _endpoint(config: Mapping[str, Any]) -> str:
    given = str(config.get("endpoint") or gcs_access.ENDPOINT)
    try:
        url = URL(given)
    except ValueError:
        raise BadCall("endpoint cannot be read") from None
    if url.scheme not in ("http", "https") or not url.host or url.user or url.query_string or url.fragment:
        raise BadCall("endpoint must be an absolute http or https address, without user and query")
    return str(url)
