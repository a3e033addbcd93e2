"""The few requests to a Kubernetes API that jobs need: plain JSON over https, each bounded in time and size."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.errors import ToolError
from shared.events.outcome import Outcome, failed
from shared.tools.base.http_body import whole
from shared.tools.kubernetes.access import Access
from shared.tools.kubernetes.log import Log

if TYPE_CHECKING:
    import aiohttp

REQUEST_TIMEOUT_S = 15.0
ANSWER_LIMIT = 16 * 1024 * 1024
TRIES = 4            # of one request while nothing runs yet; a job that runs is watched as long as the call lasts
FIRST_PAUSE_S = 0.2  # then twice as long each time
MESSAGE_LIMIT = 600  # characters of what the API says
LOG_TIMEOUT_S = 120.0
MAX_AFTER_S = 60     # for which it may ask to be left alone
GROUPS = {"jobs": "/apis/batch/v1", "deployments": "/apis/apps/v1"}
TRANSIENT = frozenset({0, 408, 429, 500, 502, 503, 504})
T = TypeVar("T")


class ApiError(ToolError):
    """The API refused, or did not answer (status 0). `tls`: its certificate is not the one it should be. `after_s`: for
    so long it does not want to be asked again."""

    def __init__(
        self, status: int, message: str, reason: str = "", *, tls: bool = False, after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.tls, self.after_s = status, reason, tls, after_s

    @property
    def transient(self) -> bool:
        full = self.status == 403 and "exceeded quota" in str(self)
        return (self.status in TRANSIENT and not self.tls) or full


class Api:
    """Requests of one call."""

    def __init__(
        self, session: "aiohttp.ClientSession", access: Access, namespace: str, within_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._session, self._access, self._within_s = session, access, within_s
        self.namespace = namespace

    async def create(self, kind: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return await self._json("POST", self._path(kind), manifest)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return await self._json("GET", f"{self._path(kind)}/{name}")

    async def find(self, kind: str, labels: str) -> list[dict[str, Any]]:
        found = await self._json("GET", self._path(kind), params={"labelSelector": labels})
        return list(found.get("items") or ())

    async def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> dict[str, Any]:
        return await self._json("PATCH", f"{self._path(kind)}/{name}", change)

    async def delete(self, kind: str, name: str, preconditions: Mapping[str, str] | None = None) -> None:
        """With all that belongs to it. What is gone already is fine."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if preconditions:
            options["preconditions"] = preconditions
        try:
            await self._json("DELETE", f"{self._path(kind)}/{name}", options)
        except ApiError as error:
            if error.status not in (404, 410):
                raise

    async def log(self, pod: str, container: str) -> Log:
        """The beginning and the end of what the container wrote."""
        log = Log()
        async with self._open("GET", f"{self._path('pods')}/{pod}/log", None, {"container": container},
                              LOG_TIMEOUT_S) as answer:
            if answer.status >= 400:
                raise _refusal(answer.status, await whole(answer, _check_size))
            async for part in answer.content.iter_any():
                if not log.add(part):
                    break
        return log

    def _path(self, kind: str) -> str:
        return f"{GROUPS.get(kind, '/api/v1')}/namespaces/{self.namespace}/{kind}"

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None,
                    params: Mapping[str, str] | None = None, kind: str = "") -> dict[str, Any]:
        async with self._open(method, path, body, params, self._within_s, kind) as answer:
            data = await whole(answer, _check_size)
        if answer.status >= 300:
            raise _refusal(answer.status, data, answer.headers.get("Retry-After", ""))
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.MsgspecError:
            raise ApiError(502, "what answers is no Kubernetes API") from None

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None, params: Mapping[str, str] | None,
              limit: float, kind: str = "") -> "_Opened":
        kind = kind or ("application/merge-patch+json" if method == "PATCH" else "application/json")
        headers = {"Authorization": f"Bearer {self._access.token()}", "Accept": "application/json, */*"}
        if body is not None:
            headers["Content-Type"] = kind
        return _Opened(self._session, method, self._access.server + path, {
            "headers": headers, "params": params, "data": None if body is None else msgspec.json.encode(body),
            "ssl": self._access.tls if self._access.tls is not None else True, "allow_redirects": False,
        }, limit)


class _Opened:
    """A request whose every failure is an ApiError."""

    def __init__(self, session: "aiohttp.ClientSession", method: str, url: str, options: dict[str, Any],
                 limit: float) -> None:
        import aiohttp

        self._lib = aiohttp
        self._request = session.request(method, url, timeout=aiohttp.ClientTimeout(total=limit), **options)

    async def __aenter__(self) -> "aiohttp.ClientResponse":
        try:
            return await self._request.__aenter__()
        except Exception as error:
            raise self._failure(error) from None

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        await self._request.__aexit__(kind, error, trace)
        if isinstance(error, (self._lib.ClientError, TimeoutError, OSError)):
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> Exception:
        match error:
            case self._lib.ClientSSLError():
                return ApiError(0, "the certificate of the Kubernetes API is not trusted", tls=True)
            case TimeoutError():
                return ApiError(0, "the Kubernetes API does not answer in time")
            case self._lib.ClientError() | OSError():
                return ApiError(0, f"the Kubernetes API cannot be reached ({type(error).__name__})")
            case _:
                return error


async def patiently(request: Callable[[], Awaitable[T]]) -> T:
    """The answer, after what passes by itself has passed."""
    pause = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return await request()
        except ApiError as error:
            if not error.transient:
                raise
        await asyncio.sleep(pause)
        pause *= 2
    return await request()


def failure(error: ApiError) -> Outcome:
    details = {"status": error.status or None, "reason": error.reason or None}
    match error.status:
        case 0:
            return failed("tls" if error.tls else "connect", str(error), retryable=not error.tls, details=details)
        case (401 | 403) if not error.transient:
            return failed("auth", str(error), details=details)
        case 400 | 404 | 409 | 422:
            return failed("config", str(error), details=details)
        case _:
            return failed("kubernetes", str(error), retryable=error.transient, details=details)


def _check_size(size: int) -> None:
    if size > ANSWER_LIMIT:
        raise ApiError(502, f"an answer of the Kubernetes API is over {ANSWER_LIMIT} bytes")


def _refusal(status: int, data: bytes, after: str = "") -> ApiError:
    """What a Status object says; anything else is not repeated."""
    try:
        said = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        said = {}
    message = str(said.get("message") or f"status {status}")[:MESSAGE_LIMIT]
    wait = float(min(int(after), MAX_AFTER_S)) if after.isascii() and after.isdigit() else 0.0
    return ApiError(status, f"Kubernetes: {message}", str(said.get("reason") or ""), after_s=wait)
