"""What goes into a request and what is read out of an answer, as values."""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from yarl import URL

from shared.tools.base import charsets
from shared.tools.base.contract import RESULT_LIMIT, Call
from shared.tools.base.guard import BadCall, TooLarge, mapping, one_of

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
READING = frozenset({"GET", "HEAD"})
BODIES = ("json", "body", "data", "payload")
PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
FORM = "application/x-www-form-urlencoded"
TEXT_TYPES = frozenset({"application/xml", "application/javascript", "application/x-ndjson", FORM,
                        "application/yaml", "application/x-yaml", "application/sql", "application/graphql"})
MAX_VALUES = 500_000  # lists, mappings and what they hold, in one JSON answer
MAX_SHOWN = 60  # characters of a charset's name in a message

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 §5.6.2
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Request(msgspec.Struct, frozen=True):
    """`private` are the lower-case names of headers that stay with the first origin."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    private: frozenset[str] = PRIVATE

    @property
    def place(self) -> str:
        """The request in a message."""
        return f"{self.method} {self.address}"

    @property
    def address(self) -> str:
        """What is asked, without what may carry a credential: no user, no query, no fragment."""
        return f"{self.url.origin()}{self.url.path}"

    def redirected(self, status: int, url: URL) -> "Request":
        """RFC 9110 §15.4: 303, and 301 or 302 after a POST, ask with GET; 307 and 308 repeat."""
        headers = dict(self.headers)
        method, body = self.method, self.body
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", None
            headers = _without(headers, {"content-type", "content-length", "idempotency-key"})
        if url.origin() != self.url.origin():
            headers = _without(headers, self.private)
        return msgspec.structs.replace(self, method=method, url=url, headers=headers, body=body)


def prepare(call: Call) -> Request:
    method = method_of(call.config.get("method"))
    headers = {str(name): _scalar(value) for name, value in mapping(call.config, "headers").items()
               if value is not None}
    secret = _auth_headers(call.auth or {})
    for name, value in secret.items():
        _default(headers, name, value)
    body = _body(call.config, headers)
    _check_headers(headers, len(body or b""))
    if method != "GET":
        _default(headers, "Idempotency-Key", call.idempotency_key)
    url = _url(call.config).update_query(_pairs(mapping(call.config, "params")))
    private = PRIVATE | {name.lower() for name in secret}
    return Request(method, url, headers, body, private)


def only_reads(config: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """What the author says; else a GET or HEAD, which promise it (RFC 9110 §9.2.1), with no body and with no header in
    which some servers are asked for another method."""
    said = spec.get("read_only")
    if said is not None:
        return said is True
    headers = config.get("headers") or {}
    return (
        str(config.get("method") or "GET").upper() in READING
        and all(config.get(name) is None for name in BODIES)
        and isinstance(headers, Mapping)
        and not any("method" in str(name).lower() or "{{" in str(name) for name in headers)
    )


def method_of(given: Any) -> str:
    method = str(given or "GET").upper()
    if method not in METHODS:
        raise BadCall(f"method {method!r} is not one of {', '.join(sorted(METHODS))}")
    return method


def _check_headers(headers: Mapping[str, str], length: int) -> None:
    """What a server may read in another way than we mean it would make the rest of the request the beginning of the
    next one on the connection, whoever sends that (RFC 9110 §5.1, RFC 9112 §11.2)."""
    for name, value in headers.items():
        if _CONTROL.search(value) or _CONTROL.search(name):
            raise BadCall("a header holds a line break or another control character")
        if not _TOKEN.fullmatch(name):
            raise BadCall(f"header {name[:MAX_SHOWN]!r}: a name has letters, digits and !#$%&'*+-.^_`|~ alone")
        if name.lower() == "transfer-encoding" or (name.lower() == "content-length" and value != str(length)):
            raise BadCall(f"header {name!r}: the call itself says how long its body is")


def _url(config: Mapping[str, Any]) -> URL:
    try:
        url = URL(str(config.get("url") or ""))
    except ValueError:
        raise BadCall("url cannot be read") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise BadCall("url must be an absolute http or https address")
    return url


def absolute(base: URL, location: str) -> URL:
    url = base.join(URL(location))
    if url.scheme not in ("http", "https") or not url.host:
        raise BadCall("the answer redirects to an address that is not http or https")
    return url


def _pairs(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A list repeats its key, None leaves it out, booleans are written as JSON writes them."""
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        values: Iterable[Any] = value if isinstance(value, (list, tuple)) else (value,)
        pairs += [(str(name), _scalar(item)) for item in values if item is not None]
    return pairs


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')


def _auth_headers(auth: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if auth.get("token"):
        headers["Authorization"] = f"Bearer {auth['token']}"
    elif auth.get("username") is not None:
        pair = f"{auth['username']}:{auth.get('password') or ''}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return headers | {str(name): str(value) for name, value in mapping(auth, "headers").items()}


def _body(config: Mapping[str, Any], headers: dict[str, str]) -> bytes | None:
    given = one_of(config, *BODIES)
    if given is None:
        return None
    name, value = given
    kind = next((headers[key] for key in headers if key.lower() == "content-type"), "")
    if name != "json" and isinstance(value, str):
        body = value.encode()
    elif name != "json" and isinstance(value, Mapping) and kind.startswith(FORM):
        body = urlencode(_pairs(value)).encode()
    else:
        body = msgspec.json.encode(value)
        _default(headers, "Content-Type", "application/json")
    if len(body) > RESULT_LIMIT:
        raise TooLarge(f"the request's body is over {RESULT_LIMIT} bytes")
    return body


def _default(headers: dict[str, str], name: str, value: str) -> None:
    if name.lower() not in {key.lower() for key in headers}:
        headers[name] = value


def _without(headers: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def header_dict(headers: Any) -> dict[str, str]:
    """Lower-case names; a header sent several times is joined as RFC 9110 §5.3 allows."""
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


async def decode(body: bytes, content_type: str, *, empty: bool = False) -> tuple[Any, str]:
    """The payload, and what is wrong with it: JSON decoded, text as text, other bytes as base64."""
    kind, _, rest = content_type.partition(";")
    kind = kind.strip().lower()
    if empty or not body:
        return None, ""
    if kind == "application/json" or kind.endswith("+json"):
        _check_values(body)
        try:
            return msgspec.json.decode(body), ""
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            shown, _ = await _text(body, "utf-8")
            return shown, f"the answer is not the JSON it says it is ({error})"
    if _is_text(kind):
        _, found, charset = rest.lower().partition("charset=")
        return await _text(body, charset.partition(";")[0].strip() if found else "utf-8")
    return _base64(body), ""


def _check_values(body: bytes) -> None:
    """Making each of them holds the worker up; text may be full of commas, and costs nothing."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") <= MAX_VALUES:
        return
    bare = _STRING.sub(b"", body)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > MAX_VALUES:
        raise TooLarge(f"the answer is JSON of over {MAX_VALUES:,} values: ask for less at a time")


def _is_text(kind: str) -> bool:
    return not kind or kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith("+xml")


async def _text(body: bytes, charset: str) -> tuple[str, str]:
    """What is not text, or in an unknown charset, is kept as base64 and marked so."""
    if charsets.label(charset) not in charsets.CODECS:
        return _base64(body), f"the answer's charset {charset[:MAX_SHOWN]!r} is not known: its data is kept as base64"
    found = await charsets.text(body, charset)
    if found is None:
        return _base64(body), f"the answer is no text in its charset {charset[:MAX_SHOWN]}: its data is kept as base64"
    return found, ""


def _base64(body: bytes) -> str:
    return base64.b64encode(body).decode()
