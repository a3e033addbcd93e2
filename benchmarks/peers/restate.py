"""Restate: its server, a service of one handler for each shape, calls through the ingress.

Its log server fsyncs its write-ahead log before it answers, many writes at a time; without, it leaves that to the
system (`log-server.rocksdb-disable-wal-fsync`), as our broker does by default.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from benchmarks.peers.children import PROGRAMS, Child
from benchmarks.peers.place import Peer, Place, Running, group
from benchmarks.processes import free_port

HYPERCORN = """\
bind = "127.0.0.1:{port}"
workers = {processes}
worker_class = "uvloop"
h2_max_concurrent_streams = 2147483647
keep_alive_max_requests = 2147483647
keep_alive_timeout = 2147483647
accesslog = "/dev/null"
"""
REGISTER_S = 30.0


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Running]:
    ingress, admin, node, service = (free_port() for _ in range(4))
    async with group() as made:
        server = await made.add(_server(place, ingress, admin, node))
        served = await made.add(_service(place, service))
        await server.listens(admin)
        await server.listens(ingress)
        await served.listens(service)
        await _register(admin, service)
        await made.drive(place, "restate_driver.py", {"RESTATE_INGRESS": f"http://127.0.0.1:{ingress}"})
        yield made.running()


def _server(place: Place, ingress: int, admin: int, node: int) -> Child:
    binary = next((place.home / "node" / "node_modules" / "@restatedev").glob("restate-server-*/bin/restate-server"))
    environ = {
        "RESTATE_BASE_DIR": str(place.folder / "restate"),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_ADVERTISED_HOST": "127.0.0.1",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_DEFAULT_NUM_PARTITIONS": place.settings["partitions"],
        "RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_FSYNC": "false" if place.durable else "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    return Child("restate-server", [binary, "--no-logo"], {**place.environ, **environ}, place.folder)


def _service(place: Place, port: int) -> Child:
    processes = place.settings["processes"]
    command: list[str | Path]
    if place.settings["server"] == "granian":
        options = f"--interface asgi --http 2 --host 127.0.0.1 --port {port} --workers {processes} --loop uvloop"
        command = [place.program("granian"), *options.split(), "--no-access-log", "restate_service:app"]
    else:
        config = place.folder / "hypercorn.toml"
        config.write_text(HYPERCORN.format(port=port, processes=processes))
        command = [place.program("hypercorn"), "--config", config, "restate_service:app"]
    return Child("restate-service", command, {**place.environ, "PYTHONPATH": str(PROGRAMS)}, place.folder)


async def _register(admin: int, service: int) -> None:
    """The server asks the service what it has; until it is ready, it refuses."""
    url, body = f"http://127.0.0.1:{admin}/deployments", {"uri": f"http://127.0.0.1:{service}"}
    said = ""
    try:
        async with asyncio.timeout(REGISTER_S), aiohttp.ClientSession() as session:
            while True:
                async with session.post(url, json=body) as answer:
                    said = await answer.text()
                    if answer.ok:
                        return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise SystemExit(f"Restate does not take the service within {REGISTER_S} s: {said}") from None


RESTATE = Peer(
    "restate",
    ("restate-sdk==1.2.0", "hypercorn==0.18.0", "granian==2.8.7", "uvloop", "aiohttp", "asyncpg"),
    running,
    node=("@restatedev/restate-server@1.7.12",),
    settings={"server": "granian", "processes": "2", "partitions": "24"},
)
