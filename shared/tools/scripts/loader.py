"""`script:` — the text of a program, loaded when the task runs: from a folder of the worker, over http, from
Google Cloud Storage or S3, or given in the playbook's data."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared.errors import TemplateError
from shared.tools.base.contract import Call, KeySpec, ToolOptions
from shared.tools.base.folders import inside
from shared.tools.base.guard import BadCall, CallFailed, mapping, seconds
from shared.tools.scripts import stores as script_store
from shared.tools.scripts.stores import SCRIPT_LIMIT, NoScript

__all__ = ["CREDENTIAL", "KEYS", "SCRIPT_LIMIT", "SCRIPT_TIMEOUT_S", "Scripts", "key"]

SCRIPT_TIMEOUT_S = 30.0  # unless source.timeout says otherwise
SCHEMES = {"gs://": "gcs", "s3://": "s3", "http://": "http", "https://": "http"}
CREDENTIAL = "script.source.auth"

SOURCE = {
    "type": KeySpec("Told by the uri unless given.", choices=("file", "http", "gcs", "s3", "inline")),
    "endpoint": KeySpec("http: the address, or what the uri is relative to. gcs, s3: another server's address."),
    "method": KeySpec("http: GET unless given."),
    "headers": KeySpec("http: mapping of request headers."),
    "timeout": KeySpec(f"Seconds to load it, {SCRIPT_TIMEOUT_S:g} unless given."),
    "auth": KeySpec("Credential. http: as for kind http. gcs: {token}, {key_id, secret} or a service account. "
                    "s3: {access_key_id, secret_access_key, session_token}.", credential=True),
    "region": KeySpec("s3: the region, us-east-1 unless given."),
    "code": KeySpec("inline: the text itself."),
}
KEYS = {
    "uri": KeySpec("A path in the worker's folder of scripts, gs://bucket/object, s3://bucket/key or an address."),
    "source": KeySpec("Where and how it is loaded.", fields=SOURCE),
}


def key(doc: str) -> KeySpec:
    """`script` as a key of a tool."""
    return KeySpec(doc, fields=KEYS)


class Scripts:
    def __init__(self, options: ToolOptions) -> None:
        self._folder = Path(options.scripts).resolve() if options.scripts else None

    async def as_code(self, call: Call) -> Call:
        """The call with its program under `code`."""
        if "script" not in call.config:
            return call
        return _with(call, "code", await self._text(call))

    async def as_sql(self, call: Call) -> Call:
        """The call with its statements under `command`. With `args`, `{{ name }}` in them is bound to those;
        without, the text is used as it is."""
        if "script" not in call.config:
            return call
        from shared.dsl.templates.evaluate import is_template, render_sql

        text, args = await self._text(call), mapping(call.config, "args")
        try:
            made = render_sql(text, args) if args and is_template(text) else text
        except TemplateError as error:
            raise CallFailed(error.kind, f"script: {error}") from None
        return _with(call, "command", made)

    async def _text(self, call: Call) -> str:
        script = mapping(call.config, "script")
        source = mapping(script, "source")
        limit = SCRIPT_TIMEOUT_S if source.get("timeout") is None else _seconds(source["timeout"])
        uri = str(script.get("uri") or "")
        try:
            async with asyncio.timeout(limit):
                return _decoded(await self._load(uri, source, call.credentials.get(CREDENTIAL) or {}), uri)
        except TimeoutError:
            raise NoScript(f"the script was not loaded within {limit:g} s", retryable=True) from None

    async def _load(self, uri: str, source: Mapping[str, Any], auth: Mapping[str, Any]) -> bytes:
        kind = source.get("type") or next((SCHEMES[head] for head in SCHEMES if uri.startswith(head)), "file")
        match kind:
            case "file":
                return await asyncio.to_thread(_read, self._folder, uri)
            case "inline":
                return _inline(source)
            case "http":
                return await script_store.from_http(uri, source, auth)
            case "gcs":
                return await script_store.from_gcs(uri, source, auth)
            case "s3":
                return await script_store.from_s3(uri, source, auth)
            case _:
                raise BadCall(f"script.source.type cannot be {str(kind)[:60]!r}")


def _seconds(value: Any) -> float:
    return seconds("timeout", value, "script.source")


def _with(call: Call, name: str, value: Any) -> Call:
    rest = {each: given for each, given in call.config.items() if each != "script"}
    if rest.get(name) is not None:
        raise BadCall(f"give one of {name}, script, not both")
    return msgspec.structs.replace(call, config={**rest, name: value})


def _read(folder: Path | None, uri: str) -> bytes:
    """Only what is in the folder, links followed."""
    if not uri:
        raise BadCall("script.uri is empty")
    if folder is None:
        raise NoScript(f"{uri}: this worker has no folder of scripts: who runs it names one in NOETL_SCRIPTS")
    try:
        path = inside(folder, uri.removeprefix("file://"))
        if path is None:
            raise NoScript(f"{uri}: not in the worker's folder of scripts (NOETL_SCRIPTS)")
        if not path.is_file():
            raise NoScript(f"{uri}: there is no such file in the worker's folder of scripts")
        with path.open("rb") as file:
            data = file.read(SCRIPT_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise NoScript(f"{uri}: {getattr(error, 'strerror', None) or 'cannot be read'}") from None
    script_store.check_size(len(data))
    return data


def _inline(source: Mapping[str, Any]) -> bytes:
    code = source.get("code")
    if not isinstance(code, str):
        raise BadCall("script.source.code must be text")
    data = code.encode()
    script_store.check_size(len(data))
    return data


def _decoded(data: bytes, uri: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoScript(f"{uri.partition('?')[0]}: the script is not text in UTF-8") from None
