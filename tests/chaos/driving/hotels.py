"""Cities with hotels whose rooms come page by page (V10 §11), from a server that fails now and then."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg
from aiohttp import web

CITIES, HOTELS, MAX_PAGES, ROOMS = 5, 20, 7, 3
FAILING = 0.2  # of the requests
IN_A_ROW = 3  # failures of one page at most, so that ten attempts are enough
DELAY_S = 0.02
TABLE = """CREATE TABLE IF NOT EXISTS rooms (
    run text, city text, hotel text, page int, room text, PRIMARY KEY (run, city, hotel, page, room))"""


class Page(NamedTuple):
    city: str
    hotel: str = ""  # none: the list of its hotels
    page: int = 0


class Asked(NamedTuple):
    page: Page
    at: float
    answered: bool


class Chain:
    """`asked` are the requests in the order of their arrival; what fails follows from the seed."""

    def __init__(self, run: str, seed: int) -> None:
        self.run, self.seed, self.url = run, seed, ""
        self.asked: list[Asked] = []
        self._times: Counter[Page] = Counter()
        self.cities = [f"city-{number}" for number in range(CITIES)]
        self.hotels = [f"hotel-{number}" for number in range(HOTELS)]

    @property
    def payload(self) -> dict[str, object]:
        return {"api_url": self.url, "run": self.run}

    @property
    def pages(self) -> set[Page]:
        return {
            Page(city, hotel, page)
            for city in self.cities
            for hotel in self.hotels
            for page in range(1, self.pages_of(city, hotel) + 1)
        }

    def pages_of(self, city: str, hotel: str) -> int:
        return random.Random(f"{self.seed}/{city}/{hotel}").randint(1, MAX_PAGES)

    def rooms_of(self, page: Page) -> list[str]:
        return [f"{page.city}/{page.hotel}/{(page.page - 1) * ROOMS + number}" for number in range(ROOMS)]

    def rows(self) -> set[tuple[Page, str]]:
        return {(page, room) for page in self.pages for room in self.rooms_of(page)}

    def fetched(self) -> int:
        return len({asked.page for asked in self.asked if asked.answered and asked.page.page})

    # -- the server --------------------------------------------------------------------

    async def list_cities(self, request: web.Request) -> web.Response:
        return await self._answer(request, Page(""), lambda: {"cities": self.cities})

    async def list_hotels(self, request: web.Request) -> web.Response:
        return await self._answer(request, Page(request.query["city"]), lambda: {"hotels": self.hotels})

    async def list_rooms(self, request: web.Request) -> web.Response:
        asked = request.query
        page = Page(asked["city"], asked["hotel"], int(asked["page"]))
        more = page.page < self.pages_of(page.city, page.hotel)
        return await self._answer(request, page, lambda: {"rooms": self.rooms_of(page), "more": more})

    async def _answer(self, request: web.Request, page: Page, data: Callable[[], object]) -> web.Response:
        chance = random.Random(f"{self.seed}/{page}/{self._times[page]}")
        fails = self._times[page] < IN_A_ROW and chance.random() < FAILING
        self._times[page] += 1
        self.asked.append(Asked(page, time.time(), not fails))
        await asyncio.sleep(DELAY_S)
        if not fails:
            return web.json_response(data())
        if chance.random() < 0.3 and request.transport is not None:
            request.transport.abort()
        return web.Response(status=503)

    async def stored(self, dsn: str) -> list[tuple[Page, str]]:
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch("SELECT city, hotel, page, room FROM rooms WHERE run = $1", self.run)
        finally:
            await connection.close()
        return [(Page(row["city"], row["hotel"], row["page"]), row["room"]) for row in rows]


@asynccontextmanager
async def hotel_chain(dsn: str, run: str, seed: int) -> AsyncIterator[Chain]:
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    await connection.close()
    chain, app = Chain(run, seed), web.Application()
    app.router.add_get("/cities", chain.list_cities)
    app.router.add_get("/hotels", chain.list_hotels)
    app.router.add_get("/rooms", chain.list_rooms)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        chain.url = f"http://{host}:{port}"
        yield chain
    finally:
        await runner.cleanup()
