"""A paged HTTP API on loopback that fails as a test tells it to."""

from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class Api:
    """`pages[path]` are the pages of an endpoint, `broken[path, page]` the statuses it answers with
    before it works, `refused[path]` the status it always answers with; `posted` is what was sent to it, and `sends` are
    headers of its answers."""

    def __init__(self) -> None:
        self.pages: dict[str, list[list[Any]]] = {}
        self.broken: dict[tuple[str, int], list[int]] = {}
        self.refused: dict[str, int] = {}
        self.asked: list[tuple[str, int]] = []
        self.queries: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.posted: list[Any] = []
        self.sends: dict[str, str] = {}

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        app.router.add_post("/{path:.*}", self._keep)
        self.server = TestServer(app, host="127.0.0.1")
        await self.server.start_server()

    async def close(self) -> None:
        await self.server.close()

    async def _keep(self, request: web.Request) -> web.Response:
        self.posted.append(await request.json())
        return web.json_response({"kept": len(self.posted)})

    async def _answer(self, request: web.Request) -> web.Response:
        page = int(request.query.get("page", "1"))
        self.asked.append((request.path, page))
        self.queries.append(dict(request.query))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        waiting = self.broken.get((request.path, page), [])
        status = waiting.pop(0) if waiting else self.refused.get(request.path)
        if status is not None:
            return web.json_response({"problem": status}, status=status, headers=self.sends)
        pages = self.pages[request.path]
        paging = {"page": page, "hasMore": page < len(pages)}
        return web.json_response({"data": pages[page - 1], "paging": paging}, headers=self.sends)
