"""Real servers for the tools: PostgreSQL and NATS once per session, an HTTP server per test."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.errors import Unavailable
from shared.events.outcome import Ref
from shared.tools.base.contract import Tool, ToolOptions
from shared.tools.registry import open_tool
from tests.support.servers.gcs import running_gcs
from tests.support.servers.kube import Container, Ended, Kube
from tests.support.servers.own_nats import OwnNats, running_nats
from tests.support.servers.postgres import drop_database, fresh_database, postgres_dsn
from tests.support.servers.snowflake import fake_snowflake

__all__ = ["postgres_dsn"]


@pytest.fixture
async def database(postgres_dsn: str) -> AsyncIterator[str]:
    dsn = await fresh_database(postgres_dsn)
    yield dsn
    await drop_database(dsn)


@pytest.fixture(scope="session")
def own_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNats]:
    with running_nats(tmp_path_factory.mktemp("own_nats")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[str]:
    """The address of a server with an empty bucket."""
    with running_gcs() as url:
        yield url


class Store:
    """Stored results, as a worker hands them to its tools; one of them never comes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def put(self, value: Any, shape: str = "value", *, lost: bool = False, slow: bool = False) -> dict[str, Any]:
        data = msgspec.json.encode(value)
        checksum = ("0" * 8 if slow else "") + hashlib.sha256(data).hexdigest()
        ref = Ref("nats", f"e1/{checksum[:64]}", checksum[:64], len(data), shape)
        if not lost:
            self.values[ref.key] = value
        return msgspec.to_builtins(ref)

    async def load(self, ref: Ref) -> Any:
        if ref.checksum.startswith("0" * 8):
            await asyncio.sleep(60)
        if ref.key not in self.values:
            raise Unavailable(f"{ref.key} is not there")
        return self.values[ref.key]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def opened(tmp_path, store: Store) -> AsyncIterator[Callable[[str], Tool]]:
    """Opens tools by kind and closes them after the test."""
    tools: list[Tool] = []

    def open_one(kind: str) -> Tool:
        tools.append(open_tool(kind, ToolOptions(python_processes=1, temp_folder=str(tmp_path), load=store.load,
                                                 duckdb_files=(str(tmp_path),))))
        return tools[-1]

    yield open_one
    for tool in tools:
        await tool.close()


@pytest.fixture
def snow() -> Iterator[list[dict[str, Any]]]:
    """An account at Snowflake; gives what each session was opened with."""
    with fake_snowflake() as opened:
        yield opened


class Site:
    """An HTTP server that answers with what a test gives it and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        self.gone = asyncio.Event()

    def on(self, path: str, answer: Callable[[], web.StreamResponse]) -> str:
        async def reply(_request: web.Request) -> web.StreamResponse:
            return answer()

        self.answers[path] = reply
        return str(self.server.make_url(path))

    def hang(self, path: str) -> str:
        async def never(_request: web.Request) -> web.StreamResponse:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.gone.set()
                raise
            return web.Response()

        self.answers[path] = never
        return str(self.server.make_url(path))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append({
            "method": request.method, "path": request.path, "query": request.rel_url.raw_query_string,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode(),
        })
        return await self.answers[request.path](request)

    async def start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.server = TestServer(app, host="127.0.0.1")
        await self.server.start_server()


@asynccontextmanager
async def opened_site() -> AsyncIterator[Site]:
    one = Site()
    await one.start()
    yield one
    await one.server.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with opened_site() as one:
        yield one


@pytest.fixture
async def other_site() -> AsyncIterator[Site]:
    async with opened_site() as another:
        yield another


@pytest.fixture
async def kube() -> AsyncIterator[Kube]:
    """A cluster with the images `good`, `bad` (which fails) and `slow`."""
    async def good(container: Container) -> Ended:
        return Ended(0, f"ran {container.command}\n".encode())

    async def bad(_container: Container) -> Ended:
        return Ended(3, b"it broke\n")

    async def slow(_container: Container) -> Ended:
        await asyncio.sleep(60)
        return Ended()

    one = Kube()
    one.images |= {"good": good, "bad": bad, "slow": slow}
    await one.start()
    yield one
    await one.close()
