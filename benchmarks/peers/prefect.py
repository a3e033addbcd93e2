"""Prefect: its server on PostgreSQL, flows in some processes.

Results of tasks are persisted (`PREFECT_RESULTS_PERSIST_BY_DEFAULT`), for without that nothing of a flow is left when
its process dies. It takes its time, so it is given a tenth of the executions.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.children import Child
from benchmarks.peers.database import database
from benchmarks.peers.place import Peer, Place, Running, group
from benchmarks.processes import free_port

START_S = 120.0


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Running]:
    port = free_port()
    with database(place.folder / "postgres", place.durable) as server:
        async with group() as made:
            made.others.append(server)
            environ = {
                "PREFECT_HOME": str(place.folder / "prefect"),
                "PREFECT_API_DATABASE_CONNECTION_URL": server.url("postgresql+asyncpg", "postgres"),
                "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                "PREFECT_SERVER_UI_ENABLED": "false",
                "PREFECT_LOGGING_TO_API_ENABLED": "false",
                "PREFECT_LOGGING_LEVEL": "ERROR",
                "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
                "PREFECT_AT_ONCE": place.settings["at_once"],
            }
            options = f"server start --host 127.0.0.1 --port {port} --no-ui".split()
            command: list[str | Path] = [place.program("prefect"), *options]
            api = await made.add(Child("server", command, place.environ | environ, place.folder))
            await api.listens(port, START_S)
            for _ in range(int(place.settings["processes"])):
                await made.drive(place, "prefect_driver.py", environ)
            yield made.running()


PREFECT = Peer(
    "prefect",
    ("prefect==3.8.8", "fastapi<0.146", "uvloop", "aiohttp", "asyncpg"),
    running,
    settings={"processes": "2", "at_once": "10"},
    scale=10,
)
