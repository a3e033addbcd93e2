"""Requests of `kind: gcs`: one pool of connections, tokens kept while they are good, and what the server refuses
as an error outcome with a code."""

import asyncio
import hashlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from yarl import URL

from shared.errors import ToolError
from shared.events.outcome import Outcome, failed
from shared.tools.base.contract import RESULT_LIMIT
from shared.tools.base.guard import BadCall, TooLarge
from shared.tools.base.http_body import whole
from shared.tools.gcs import access as gcs_access
from shared.tools.gcs.access import Token
from shared.tools.http import data as http_data
from shared.tools.http.data import Request

if TYPE_CHECKING:
    import aiohttp

CONNECTIONS = 64
CONNECT_TIMEOUT_S = 10.0
MAX_TOKENS = 256         # service accounts whose token is kept
TOKEN_MARGIN_S = 60.0    # a token is not used in its last minute
MESSAGE_LIMIT = 600      # characters of what the server says
CODES = {400: "invalid", 401: "unauthorized", 403: "forbidden", 404: "not_found", 408: "timeout", 409: "conflict",
         412: "precondition_failed", 413: "too_large", 429: "rate_limited"}
RETRYABLE = frozenset({408, 429})  # and every 5xx
BUSY = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})  # reasons of a 403 that is no lack of rights


class RequestFailed(ToolError):
    """The request did not succeed. `status` 0: there was no answer."""

    def __init__(self, outcome: Outcome, status: int = 0) -> None:
        super().__init__(str(outcome.error))
        self.outcome, self.status = outcome, status


class Answer(msgspec.Struct, frozen=True):
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except msgspec.MsgspecError:
            message = "what answers is no Google Cloud Storage"
            raise RequestFailed(failed("gcs", message, details={"code": "unexpected"})) from None


class Client:
    """All calls of a worker share the connections and the tokens."""

    def __init__(self) -> None:
        import aiohttp

        self._lib = aiohttp
        self._session: aiohttp.ClientSession | None = None
        self._tokens: dict[str, tuple[Token, float]] = {}

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, request: Request) -> Answer:
        # in pieces: a large body as a whole would hold up the loop
        data = None if request.body is None else io.BytesIO(request.body)
        try:
            async with self._open().request(request.method, request.url, headers=request.headers, data=data,
                                            allow_redirects=False) as answer:
                body = await whole(answer, _check_size)
                if answer.status >= 300:
                    raise RequestFailed(refusal(request, answer.status, body), answer.status)
                return Answer(http_data.header_dict(answer.headers), body)
        except self._lib.ClientSSLError:
            raise RequestFailed(failed("tls", f"{request.place}: the certificate is not trusted")) from None
        except (self._lib.InvalidURL, ValueError):
            raise BadCall("the address of the server cannot be used") from None
        except (self._lib.ClientError, OSError) as error:  # a TimeoutError, of connecting, is an OSError too
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise RequestFailed(failed("connect", f"{request.place}: {reason}", retryable=True)) from None

    async def token(self, auth: Mapping[str, Any]) -> Token | None:
        if not auth or gcs_access.first(auth, ("token", "access_token")):
            return await gcs_access.token_for(auth, gcs_access.WRITE, self._fetch)
        if auth.get("key_id") and auth.get("secret"):
            raise BadCall("an HMAC key is not taken here: store a token or a service account as the credential")
        name, now = _fingerprint(auth), asyncio.get_running_loop().time()
        kept, until = self._tokens.get(name, (None, 0.0))
        if kept is not None and now < until:
            return kept
        made = await gcs_access.token_for(auth, gcs_access.WRITE, self._fetch)
        if made is not None and made.life_s > TOKEN_MARGIN_S:
            self._keep(name, made, now + made.life_s - TOKEN_MARGIN_S)
        return made

    def forget(self, auth: Mapping[str, Any]) -> None:
        """The server no longer accepts its token: the next call asks for another."""
        self._tokens.pop(_fingerprint(auth), None)

    def _keep(self, name: str, token: Token, until: float) -> None:
        if len(self._tokens) >= MAX_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        self._tokens[name] = (token, until)

    async def _fetch(self, request: Request) -> bytes:
        """A token. RFC 6749 §5.2: a claim that is not believed is answered with 400."""
        try:
            return (await self.send(request)).body
        except RequestFailed as error:
            if error.status != 400:
                raise
            said = {**(error.outcome.error or {}), "kind": "auth", "code": CODES[401]}
            raise RequestFailed(msgspec.structs.replace(error.outcome, error=said), error.status) from None

    def _open(self) -> "aiohttp.ClientSession":
        if self._session is None:
            self._session = self._lib.ClientSession(
                connector=self._lib.TCPConnector(limit=CONNECTIONS), cookie_jar=self._lib.DummyCookieJar(),
                timeout=self._lib.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            )
        return self._session


class Api:
    """The requests of one call, with its endpoint and its rights."""

    def __init__(self, client: Client, endpoint: str, auth: Mapping[str, Any]) -> None:
        self._client, self._endpoint, self._auth = client, endpoint.rstrip("/"), auth

    async def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None,
                  body: bytes | None = None, kind: str = "") -> Answer:
        """A value of None leaves its parameter out. `kind`: the content type of the body."""
        token = await self._client.token(self._auth)
        asked = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        url = f"{self._endpoint}{path}" + (f"?{asked}" if asked else "")
        headers = {**gcs_access.bearer(token), **({"Content-Type": kind} if kind else {})}
        try:
            return await self._client.send(Request(method, URL(url, encoded=True), headers, body))
        except RequestFailed as error:
            if error.status == 401:
                self._client.forget(self._auth)
            raise


def refusal(request: Request, status: int, body: bytes) -> Outcome:
    """What the server says of an error; a body of another form is not repeated."""
    said, reason = _said(body)
    message = f"{request.place}: {status}" + (f" {said[:MESSAGE_LIMIT]}" if said else "")
    busy = reason in BUSY
    code = "rate_limited" if busy else CODES.get(status, "unavailable" if status >= 500 else "unexpected")
    kind = "auth" if status in (401, 403) and not busy else "gcs"
    retryable = busy or status in RETRYABLE or status >= 500
    return failed(kind, message, retryable=retryable, details={"code": code, "status": status})


def _said(body: bytes) -> tuple[str, str]:
    """The message and the reason of an error, of the storage or of the server that gives tokens (RFC 6749 §5.2)."""
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return "", ""
    error = found.get("error")
    if isinstance(error, str):
        return f"{error} {found.get('error_description') or ''}".strip(), error
    if not isinstance(error, dict):
        return "", ""
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    return str(error.get("message") or ""), str(first.get("reason") or "")


def _fingerprint(auth: Mapping[str, Any]) -> str:
    """Whose token it is, without keeping the key itself."""
    return hashlib.sha256(msgspec.json.encode(auth, order="deterministic")).hexdigest()


def _check_size(size: int) -> None:
    if size > RESULT_LIMIT:
        raise TooLarge(f"the object is over {RESULT_LIMIT} bytes")
