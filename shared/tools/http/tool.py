"""`kind: http`: one request. An answer of 400 or more, and no answer at all, are error outcomes whose
`outcome.http.status` rules can read (PIPE, outcome envelope)."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import RESULT_LIMIT, Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, TooLarge, flag, guarded, refusal, seconds
from shared.tools.base.http_body import whole
from shared.tools.http import data as http_data
from shared.tools.http import retry as http_retry
from shared.tools.http.data import Request

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

SPEC = ToolSpec(
    kind="http",
    doc="One HTTP request. Result: {status_code, headers, data, url}; a status of 400 or more is an error.",
    keys={
        "method": KeySpec("GET unless given.", wrong=refusal(http_data.method_of)),
        "url": KeySpec("Absolute http or https address.", required=True),
        "headers": KeySpec("Mapping of request headers."),
        "params": KeySpec("Mapping of query parameters; a list repeats its key, null leaves it out."),
        "json": KeySpec("Body sent as JSON, whatever its type."),
        "body": KeySpec("Body: text is sent as it is, anything else as JSON (or as a form, if the "
                        "content-type header says so)."),
        "data": KeySpec("The same as body."),
        "payload": KeySpec("The same as body."),
        "auth": KeySpec("Credential: {token}, {username, password} or {headers}."),
    },
    knobs={
        "verify": KeySpec("false: do not check the server's certificate."),
        "follow_redirects": KeySpec("false: a redirect is the answer."),
        "read_only": KeySpec("Whether the call changes nothing; unless given, a GET or HEAD without a body does not."),
        "retry": KeySpec("{attempts: 1 to 5, delay: seconds}: a GET, HEAD, OPTIONS, PUT or DELETE without an answer, "
                         "or with 408, 425, 429 or 5xx, is sent again within the call."),
    },
    reads=http_data.only_reads,
    blocks={"http": {"status": None, "headers": {}}},
)

CONNECTIONS = 128
MAX_REDIRECTS = 10
CONNECT_TIMEOUT_S = 10.0
RETRYABLE = frozenset({408, 425, 429})  # and every 5xx
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class HttpTool:
    """One session, so one pool of connections, for all calls of a worker. It keeps no cookies: what one
    execution is sent must not reach another."""

    def __init__(self, _options: ToolOptions) -> None:
        import aiohttp

        self._lib = aiohttp
        self._session: aiohttp.ClientSession | None = None

    async def run(self, call: Call) -> Outcome:
        http = blank()
        return await guarded(call, self._run(call, http), http=http)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _run(self, call: Call, http: dict[str, Any]) -> Outcome:
        """`http` is what a call that is cut short says: how often it was sent."""
        flag(call.spec, "read_only")
        request, retry = http_data.prepare(call), http_retry.retry_of(call.spec)
        if call.spec.get("retry") is None:
            return await self._sent(request, call)
        outcome = await http_retry.repeated(
            retry, request.method, lambda: self._sent(request, call), lambda attempt: http.update(attempts=attempt))
        return replace(outcome, http={**(outcome.http or {}), "attempts": http["attempts"]})

    async def _sent(self, request: Request, call: Call) -> Outcome:
        try:
            return await self._send(request, call.spec)
        except TimeoutError:
            return failed("timeout", f"{request.place}: no answer in time", retryable=True, http=blank())
        except self._lib.ClientSSLError as error:
            return failed("tls", f"{request.place}: {_reason(error)}", http=blank())
        except (self._lib.InvalidURL, ValueError) as error:
            raise BadCall(f"{request.place}: cannot be sent as it is ({type(error).__name__})") from None
        except (self._lib.ClientError, OSError) as error:
            return failed("connect", f"{request.place}: {_reason(error)}", retryable=True, http=blank())

    async def _send(self, request: Request, spec: Mapping[str, Any]) -> Outcome:
        follow, verify = flag(spec, "follow_redirects"), flag(spec, "verify")
        for _ in range(MAX_REDIRECTS + 1):
            body = None if request.body is None else io.BytesIO(request.body)
            async with self._open().request(
                request.method, request.url, headers=request.headers, data=body,
                allow_redirects=False, timeout=self._timeout(spec), ssl=verify,
            ) as answer:
                onward = _onward(answer) if follow else None
                if onward is None:
                    return await _outcome(request, answer, await whole(answer, _check_size))
                request = request.redirected(answer.status, onward)
        http = {"status": answer.status, "headers": http_data.header_dict(answer.headers)}
        return failed("redirect", f"{request.place}: more than {MAX_REDIRECTS} redirects", http=http)

    def _open(self) -> "aiohttp.ClientSession":
        if self._session is None:
            self._session = self._lib.ClientSession(
                connector=self._lib.TCPConnector(limit=CONNECTIONS),
                cookie_jar=self._lib.DummyCookieJar(),
            )
            # A dropped connection would be tried again behind our back, and an attempt be two requests. There is no
            # other way to say so; a test finds out when a later version of the library does not hear this one.
            self._session._retry_connection = False
        return self._session

    def _timeout(self, spec: Mapping[str, Any]) -> "aiohttp.ClientTimeout":
        given = spec.get("timeout")
        parts = given if isinstance(given, Mapping) else {}
        connect = parts.get("connect")
        read = parts.get("read")
        return self._lib.ClientTimeout(
            total=None,
            sock_connect=CONNECT_TIMEOUT_S if connect is None else seconds("timeout.connect", connect),
            sock_read=None if read is None else seconds("timeout.read", read),
        )


def blank() -> dict[str, Any]:
    """No answer: `outcome.http.status in [...]` is simply false."""
    return dict(SPEC.blocks["http"])


async def _outcome(request: Request, answer: "aiohttp.ClientResponse", body: bytes) -> Outcome:
    headers = http_data.header_dict(answer.headers)
    data, problem = await http_data.decode(body, headers.get("content-type", ""), empty=request.method == "HEAD")
    result = {"status_code": answer.status, "headers": headers, "data": data, "url": request.address}
    http = {"status": answer.status, "headers": headers}
    if answer.status >= 400:
        retryable = answer.status in RETRYABLE or answer.status >= 500
        message = f"{request.place}: {answer.status} {answer.reason or ''}".rstrip()
        return failed("http", message, retryable=retryable, result=result, shape="http", http=http)
    if problem:
        return failed("decode", f"{request.place}: {problem}", result=result, shape="http", http=http)
    return ok(result, shape="http", http=http)


def _check_size(size: int) -> None:
    if size > RESULT_LIMIT:
        raise TooLarge(f"the answer's body is over {RESULT_LIMIT} bytes")


def _onward(answer: "aiohttp.ClientResponse") -> "URL | None":
    location = answer.headers.get("location")
    if answer.status not in REDIRECTS or not location:
        return None
    return http_data.absolute(answer.url, location)


def _reason(error: Exception) -> str:
    """What the system said, without the address: that may carry a credential."""
    cause = getattr(error, "os_error", None) or error
    text = getattr(cause, "strerror", None) or type(error).__name__
    return str(text)
