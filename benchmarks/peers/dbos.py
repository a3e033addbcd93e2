"""DBOS: its library in some processes, each of which starts and runs its share; PostgreSQL under them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.peers.database import database
from benchmarks.peers.place import Peer, Place, Running, group


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Running]:
    with database(place.folder / "postgres", place.durable) as server:
        async with group() as made:
            made.others.append(server)
            for n in range(int(place.settings["processes"])):
                environ = {
                    "DBOS_URL": server.url("postgresql", "dbos"),
                    "DBOS_EXECUTOR": f"peer-{n}",
                    "DBOS_CONNECTIONS": place.settings["connections"],
                    "DBOS_THREADS": place.settings["threads"],
                }
                await made.drive(place, "dbos_driver.py", environ)
            yield made.running()


DBOS = Peer(
    "dbos",
    ("dbos==3.4.0", "psycopg[binary]", "uvloop", "aiohttp", "asyncpg"),
    running,
    settings={"processes": "2", "connections": "20", "threads": "64"},
)
