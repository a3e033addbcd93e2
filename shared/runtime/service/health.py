"""`GET /livez` and `GET /readyz` for a supervisor, in as much HTTP as they need, and what else a service answers there.

Alive: the event loop answers. Ready: the service has said so, is not draining, and nothing keeps it from its work;
what does is in the answer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

from msgspec import Struct

MAX_REQUEST_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
PLAIN, JSON = "text/plain", "application/json"


Page = Callable[[str], Awaitable[tuple[int, str]]]  # what is behind its name in the address → status and JSON


class Health(Struct):
    """`ready` is what the service said last; `hindrances` say what keeps it from its work now, or nothing. `pages` are
    what else is answered, by the first part of the address."""

    ready: bool = False
    hindrances: dict[str, Callable[[], str]] = {}
    pages: dict[str, Page] = {}

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
                return 404, "only /livez and /readyz are here"
        return 405, "only GET"


_current: ContextVar[Health | None] = ContextVar("health", default=None)


def is_of(health: Health) -> None:
    """What runs from here on in this task speaks about its health there."""
    health.hindrances.clear()
    health.pages.clear()
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
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        status, text, kind = await _answer(health, method, path.partition("?")[0])
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        method, status, text, kind = "GET", 400, "not an HTTP request", PLAIN
    body = "" if method == "HEAD" else text + "\n"
    writer.write(
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(text.encode()) + 1}\r\nConnection: close\r\n\r\n{body}".encode()
    )
    await writer.drain()


async def _answer(health: Health, method: str, path: str) -> tuple[int, str, str]:
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
