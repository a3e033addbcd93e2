"""Everything a measurement needs, in a temporary folder: one nats-server, one PostgreSQL, the streams,
the playbooks, the credential of W5, and the engine's services."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks import pages
from benchmarks.engine import Engine, register_playbooks
from benchmarks.processes import Service
from benchmarks.wire import Server
from shared.bus import jetstream, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.runtime.embedded import postgres
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER

SERVICES = ("router", "scheduler", "worker", "projector")
POOL = "default"


class Servers:
    """nats-server and PostgreSQL with what the engine needs there, in a folder that may have them from before."""

    def __init__(self, folder: Path, sync: str = "default") -> None:
        self.folder, self._sync = folder, sync
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> "Servers":
        try:
            await self._open()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def _open(self) -> None:
        self.nats = NatsServer(self.folder / "nats", pools=(POOL,), sync_always=self._sync == "always").start()
        self._exit.callback(self.nats.stop)
        self.nats_pid = self.nats.pid
        server = postgres.start(self.folder / "postgres")
        self._exit.callback(postgres.stop, self.folder / "postgres")
        self.dsn, self.reader_dsn = server.dsn(PROJECTOR), server.dsn(READER)
        self.postgres_pid = postgres.pid_of(self.folder / "postgres") or 0
        self.admin = Server(self.nats.url, "admin", self.nats.passwords["admin"])
        async with self.bus() as bus:
            await ensure(bus, topology.wanted((POOL,)))
            await register_playbooks(bus)
            await pages.prepare(bus, self.dsn)

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[JetStreamBus]:
        bus = await jetstream.connect(self.admin.url, user=self.admin.user, password=self.admin.password)
        try:
            yield bus
        finally:
            await bus.close()

    def service(self, name: str, number: int = 0, profile: Path | None = None) -> Service:
        """`number` tells several of one service apart."""
        user = worker_user(POOL) if name == "worker" else name
        called = f"{name}-{number}" if number else name
        environ = {
            "NOETL_NATS_URL": self.nats.url,
            "NOETL_NATS_USER": user,
            "NOETL_NATS_PASSWORD": self.nats.passwords[user],
            "NOETL_POOL": POOL,
            "NOETL_INSTANCE": f"bench-{called}",
            "NOETL_LOG_LEVEL": "warning",
        }
        if name == "projector":
            environ["NOETL_POSTGRES_DSN"] = self.dsn
        return Service(name, environ, self.folder, profile, called)


class Stack:
    """`sync` is `default` or `always`: both the engine's streams and the relay's are on this server.
    `profiled` names the services to run under cProfile and the files to write."""

    def __init__(self, sync: str, profiled: Mapping[str, Path], workers: int = 1) -> None:
        self._sync, self._profiled, self._workers = sync, profiled, workers
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> "Stack":
        folder = Path(tempfile.mkdtemp(prefix="noetl-bench-"))
        self._exit.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            await self._open(folder)
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def _open(self, folder: Path) -> None:
        servers = self.servers = await self._exit.enter_async_context(Servers(folder, self._sync))
        self.nats_pid, self.postgres_pid = servers.nats_pid, servers.postgres_pid
        self.dsn, self.admin = servers.dsn, servers.admin
        services = [servers.service(name, profile=self._profiled.get(name)) for name in SERVICES]
        services += [servers.service("worker", number) for number in range(1, self._workers)]
        self.engine = await Engine.open(services, self.admin)
        self._exit.push_async_callback(self.engine.close)
