"""A book of pages behind HTTP and a ledger without constraints: both remember every call that was made."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg
import msgspec
from aiohttp import web

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from tests.chaos.driving.log import Log

CREDENTIAL = "chaos_pg"  # the name in playbooks/pages.yaml
LEDGER = "CREATE TABLE IF NOT EXISTS ledger (run text, book text, page int)"


class Page(NamedTuple):
    book: str
    page: int


class Library:
    """`asked` are the requests in the order of their arrival."""

    def __init__(self, run: str, books: Sequence[str], pages: int, delay_s: float) -> None:
        self.run, self.books, self.pages, self.delay_s = run, books, pages, delay_s
        self.url = ""
        self.asked: list[Page] = []

    @property
    def payload(self) -> dict[str, object]:
        return {"api_url": self.url, "run": self.run, "books": list(self.books)}

    @property
    def all_pages(self) -> set[Page]:
        return {Page(book, page) for book in self.books for page in range(1, self.pages + 1)}

    async def answer(self, request: web.Request) -> web.Response:
        page = Page(request.query["book"], int(request.query["page"]))
        self.asked.append(page)
        await asyncio.sleep(self.delay_s)
        return web.json_response({"page": page.page, "more": page.page < self.pages})

    async def stored(self, dsn: str) -> Counter[Page]:
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch("SELECT book, page FROM ledger WHERE run = $1", self.run)
        finally:
            await connection.close()
        return Counter(Page(row["book"], row["page"]) for row in rows)


@asynccontextmanager
async def library(run: str, books: Sequence[str], pages: int = 30, delay_s: float = 0.03) -> AsyncIterator[Library]:
    opened = Library(run, books, pages, delay_s)
    app = web.Application()
    app.router.add_get("/pages", opened.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        opened.url = f"http://{host}:{port}/pages"
        yield opened
    finally:
        await runner.cleanup()


async def prepare(bus: JetStreamBus, dsn: str) -> None:
    await bus.kv_put(topology.KEYCHAIN, CREDENTIAL, msgspec.json.encode({"dsn": dsn}))
    connection = await asyncpg.connect(dsn)
    await connection.execute(LEDGER)
    await connection.close()


def finished(log: Log, run: str, books: Sequence[str], mark: str) -> set[Page]:
    """Pages whose task the log calls done; `mark` is what the task sets in iter: fetched or stored."""
    return {
        Page(books[record.lease.index], event.set_iter[mark])
        for record, event in log.events(run)
        if record.lease is not None and isinstance(event, ev.TaskDone) and mark in event.set_iter
    }
