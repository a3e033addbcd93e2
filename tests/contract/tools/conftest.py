"""Real servers for the tools: PostgreSQL once per session, an HTTP server per test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.tools.contract import Tool, ToolOptions
from shared.tools.registry import open_tool
from tests.support.postgres import drop_database, fresh_database, running_postgres


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    with running_postgres() as dsn:
        yield dsn


@pytest.fixture
async def database(postgres_dsn: str) -> AsyncIterator[str]:
    dsn = await fresh_database(postgres_dsn)
    yield dsn
    await drop_database(dsn)


@pytest.fixture
async def opened(tmp_path) -> AsyncIterator[Callable[[str], Tool]]:
    """Opens tools by kind and closes them after the test."""
    tools: list[Tool] = []

    def open_one(kind: str) -> Tool:
        tools.append(open_tool(kind, ToolOptions(python_processes=1, temp_folder=str(tmp_path))))
        return tools[-1]

    yield open_one
    for tool in tools:
        await tool.close()


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


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    one = Site()
    await one.start()
    yield one
    await one.server.close()


@pytest.fixture
async def other_site() -> AsyncIterator[Site]:
    one = Site()
    await one.start()
    yield one
    await one.server.close()
