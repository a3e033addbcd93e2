"""Everything a measurement needs, in a temporary folder: one nats-server, one PostgreSQL, the streams,
the playbooks, the credential of W5, and the engine's services."""

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks import pages
from benchmarks.engine import Engine, register_playbooks
from benchmarks.processes import Service
from benchmarks.wire import Server
from shared.bus import jetstream, topology
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.runtime.embedded import postgres
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.embedded.postgres_roles import PROJECTOR

SERVICES = ("router", "scheduler", "worker", "projector")
POOL = "default"


class Stack:
    """`sync` is `default` or `always`: both the engine's streams and the relay's are on this server.
    `profiled` names the services to run under cProfile and the files to write."""

    def __init__(self, sync: str, profiled: Mapping[str, Path]) -> None:
        self._sync, self._profiled = sync, profiled
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
        nats = NatsServer(folder / "nats", pools=(POOL,), sync_always=self._sync == "always").start()
        self._exit.callback(nats.stop)
        self.nats_pid = nats.pid
        self.dsn = postgres.start(folder / "postgres").dsn(PROJECTOR)
        self._exit.callback(postgres.stop, folder / "postgres")
        self.postgres_pid = postgres.pid_of(folder / "postgres") or 0
        self.admin = Server(nats.url, "admin", nats.passwords["admin"])
        await self._prepare()
        services = [self._service(name, nats, folder) for name in SERVICES]
        self.engine = await Engine.open(services, self.admin)
        self._exit.push_async_callback(self.engine.close)

    async def _prepare(self) -> None:
        bus = await jetstream.connect(self.admin.url, user=self.admin.user, password=self.admin.password)
        try:
            await ensure(bus, topology.wanted((POOL,)))
            await register_playbooks(bus)
            await pages.prepare(bus, self.dsn)
        finally:
            await bus.close()

    def _service(self, name: str, nats: NatsServer, folder: Path) -> Service:
        user = worker_user(POOL) if name == "worker" else name
        environ = {
            "NOETL_NATS_URL": nats.url,
            "NOETL_NATS_USER": user,
            "NOETL_NATS_PASSWORD": nats.passwords[user],
            "NOETL_POOL": POOL,
            "NOETL_INSTANCE": f"bench-{name}",
            "NOETL_LOG_LEVEL": "warning",
        }
        if name == "projector":
            environ["NOETL_POSTGRES_DSN"] = self.dsn
        return Service(name, environ, folder, self._profiled.get(name))
