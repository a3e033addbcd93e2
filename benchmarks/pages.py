"""The outside world of W5: a loopback HTTP API with pages, and a table for their rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import msgspec
from aiohttp import web

from benchmarks.workloads import PAGES
from shared.bus import topology
from shared.bus.ports import Bus

ITEMS_PER_PAGE = 10
CREDENTIAL = "bench_pg"  # the name in playbooks/pages.yaml


async def _page(request: web.Request) -> web.Response:
    page = int(request.query["page"])
    items = [{"id": page * ITEMS_PER_PAGE + i} for i in range(ITEMS_PER_PAGE)]
    return web.json_response({"items": items, "more": page < PAGES})


@asynccontextmanager
async def api() -> AsyncIterator[str]:
    """The URL of the API while it runs."""
    app = web.Application()
    app.router.add_get("/pages", _page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/pages"
    finally:
        await runner.cleanup()


async def prepare(bus: Bus, dsn: str) -> None:
    """The table, and the credential under which the playbook reaches it."""
    await bus.kv_put(topology.KEYCHAIN, CREDENTIAL, msgspec.json.encode({"dsn": dsn}))
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE SCHEMA IF NOT EXISTS AUTHORIZATION CURRENT_USER")  # found by its name
    await connection.execute("CREATE TABLE IF NOT EXISTS bench_pages (run text, page int, items text)")
    await connection.close()


async def check_rows(dsn: str, run: str) -> None:
    connection = await asyncpg.connect(dsn)
    found = await connection.fetchval("SELECT count(DISTINCT page) FROM bench_pages WHERE run = $1", run)
    await connection.close()
    if found != PAGES:
        raise SystemExit(f"W5: {found} pages are in the table, should be {PAGES}")
