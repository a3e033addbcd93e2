"""`GET /livez` and `GET /readyz` for a supervisor, `GET /metrics` for a Prometheus, in as much HTTP as they need; and
what else a service answers there.

Alive: the event loop answers. Ready: the service has said so, is not draining, and nothing keeps it from its work;
what does is in the answer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

from msgspec import Struct, field

from shared.runtime.service import exposition
from shared.runtime.service import metric_names as names
from shared.runtime.service.durations import Durations
from shared.runtime.service.metrics import Ask, Metrics, Sample, Source

MAX_REQUEST_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
PLAIN, JSON = "text/plain", "application/json"
METRICS = "metrics"
OWN = ("livez", "readyz", METRICS)


Page = Callable[[str], Awaitable[tuple[int, str]]]  # what is behind its name in the address → status and JSON


class Health(Struct):
    """`ready` is what the service said last; `hindrances` say what keeps it from its work now, or nothing. `pages` are
    what else is answered, by the first part of the address. `answered` counts answers, by that part and the status, and
    `took` how long they took."""

    ready: bool = False
    hindrances: dict[str, Callable[[], str]] = {}
    pages: dict[str, Page] = {}
    metrics: Metrics = field(default_factory=Metrics)
    answered: dict[tuple[str, int], int] = {}
    took: dict[str, Durations] = {}

    def mark_ready(self) -> None:
        self.ready = True

    def mark_stopping(self) -> None:
        self.ready = False

    @property
    def hindered(self) -> str:
        return "; ".join(text for hindrance in self.hindrances.values() if (text := hindrance()))

    @property
    def able(self) -> bool:
        return self.ready and not self.hindered

    def readiness(self) -> tuple[int, str]:
        if self.able:
            return 200, "ready"
        return 503, f"not ready: {self.hindered}" if self.hindered else "not ready"

    def answer(self, method: str, path: str) -> tuple[int, str]:
        match method, path:
            case "GET" | "HEAD", "/livez":
                return 200, "alive"
            case "GET" | "HEAD", "/readyz":
                return self.readiness()
            case "GET" | "HEAD", _:
                return 404, "only /livez, /readyz and /metrics are here"
        return 405, "only GET"

    def note(self, path: str, status: int, seconds: float) -> None:
        """Of an answer. Addresses can be invented: those that are not here count as one."""
        name = path.removeprefix("/").partition("/")[0]
        if name not in OWN and name not in self.pages:
            name = "other"
        self.answered[name, status] = self.answered.get((name, status), 0) + 1
        self.took.setdefault(name, Durations()).add(seconds)

    def samples(self) -> Iterator[Sample]:
        about = self.metrics.about
        yield Sample(names.INFO, 1, (about.instance, about.pool, about.version))
        yield Sample(names.READY, self.able)
        for (path, status), count in self.answered.items():
            yield Sample(names.HTTP, count, (path, str(status)))
        for path, took in self.took.items():
            yield Sample(names.HTTP_SECONDS, took.copy(), (path,))

    async def exposition(self) -> str:
        await self.metrics.ask()
        samples = [*self.samples(), *self.metrics.samples()]
        return await asyncio.to_thread(exposition.text, self.metrics.about, samples)


_current: ContextVar[Health | None] = ContextVar("health", default=None)


def is_of(health: Health) -> None:
    """What runs from here on in this task speaks about its health there."""
    health.hindrances.clear()
    health.pages.clear()
    health.metrics.begin()
    _current.set(health)


def hindrance(name: str, text: Callable[[], str]) -> None:
    """Asked whenever someone looks: what keeps this service from its work, or nothing."""
    health = _current.get()
    if health is not None:
        health.hindrances[name] = text


def page(name: str, answer: Page) -> None:
    """`GET /<name>/<rest>` of this service, for as long as it runs."""
    health = _current.get()
    if health is not None:
        health.pages[name] = answer


def figures(source: Source, ask: Ask | None = None) -> None:
    """What this service tells on `GET /metrics`, for as long as it runs; `ask` brings what the source lacks."""
    health = _current.get()
    if health is not None:
        health.metrics.add(source, ask)


_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@asynccontextmanager
async def endpoint(health: Health, port: int, host: str) -> AsyncIterator[int]:
    """Serves `health` while the block runs; yields the port in use."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await _respond(health, reader, writer)
        except (TimeoutError, ConnectionError):
            pass  # a prober that went away is its own affair
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(handle, host, port, limit=MAX_REQUEST_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _respond(health: Health, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    began, path = time.monotonic(), ""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        began = time.monotonic()
        method, path, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        path = path.partition("?")[0]
        status, text, kind = await _answer(health, method, path)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        method, status, text, kind = "GET", 400, "not an HTTP request", PLAIN
    health.note(path, status, time.monotonic() - began)
    body = "" if method == "HEAD" else text + "\n"
    writer.write(
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(text.encode()) + 1}\r\nConnection: close\r\n\r\n{body}".encode()
    )
    await writer.drain()


async def _answer(health: Health, method: str, path: str) -> tuple[int, str, str]:
    if path == f"/{METRICS}" and method in ("GET", "HEAD"):
        return 200, await health.exposition(), exposition.CONTENT_TYPE
    name, _, rest = path.removeprefix("/").partition("/")
    found = health.pages.get(name) if method in ("GET", "HEAD") and path.startswith("/") else None
    if found is None:
        return *health.answer(method, path), PLAIN
    return *await found(rest), JSON


async def is_ready(host: str, port: int) -> bool:
    """Asks the endpoint of another process."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
