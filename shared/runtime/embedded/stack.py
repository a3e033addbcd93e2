"""The embedded stack: NATS server, PostgreSQL if wanted, and the services, in one folder.

Services run as tasks of this process (quick to start) or as supervised child processes (what `up`
does); either way each has its own connection and its own user. They are handed in, because the
runtime is below the services. As tasks, each pool has one worker; as processes, the pools service runs the
workers that the documents in `noetl_pools` want.

Started in the order broker, streams, services; PostgreSQL comes up beside them and the services that need it follow.
Both servers are started again when they end. Stopped in the opposite order: who reads the log stops after those who
write it.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

import structlog
from msgspec import Struct
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.permissions import worker_user
from shared.errors import NoetlError, Refused, Unavailable
from shared.runtime.broker_auth.pool_accounts import PoolAccounts
from shared.runtime.embedded import orphan_server, postgres
from shared.runtime.embedded.broker_watch import EVERY_S, BrokerWatch
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from shared.runtime.embedded.postgres_keeper import PostgresKeeper
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER
from shared.runtime.embedded.reloaded_accounts import ReloadedAccounts
from shared.runtime.embedded.unit import Service, Unit
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Level, Settings
from shared.runtime.service.supervisor import sleep_or_stop, supervise
from shared.runtime.stores import retention

READY_S = 30.0
RECOVERY_S = 600.0  # what PostgreSQL gets to replay its log before `ready` gives up
POLL_S = 0.05
GIVE_UP_AFTER = 5  # short lives in a row of a service in this process
WORKERS_S = 10.0  # what the one who runs the workers gets beyond their drain time

log = structlog.get_logger()


class Options(Struct, frozen=True):
    folder: Path
    port: int = 0
    pools: tuple[str, ...] = ("default",)
    partitions: int = topology.PARTITIONS
    processes: bool = False
    postgres: bool = False
    drain_s: float = 20.0
    slots: int = Settings().slots
    log_level: Level = "info"
    asked: Settings = Settings()  # what the user's own environment says of files and processes of tasks


class Stack:
    def __init__(self, options: Options, services: Sequence[Service]) -> None:
        self.options, self._services = options, services
        self._tag = secrets.token_hex(2)  # in a container every start has the same process id
        self.units: list[Unit] = []
        self.database: postgres.Server | None = None
        self._keeper: PostgresKeeper | None = None
        self.read_model_error = ""  # PostgreSQL or the projector is not coming up; the engine continues
        self._stop = asyncio.Event()
        self._beside: list[asyncio.Task[None]] = []
        self._server: NatsServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._accounts: PoolAccounts | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def pools(self) -> tuple[str, ...]:
        """Those that have an account now."""
        return self.options.pools if self._accounts is None else self._accounts.pools

    @property
    def server(self) -> NatsServer:
        assert self._server is not None, "start the stack first"
        return self._server

    async def __aenter__(self) -> "Stack":
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start(self) -> None:
        options = self.options
        if (asked := options.asked.broker_auth) != "accounts":
            raise Refused(f"NOETL_BROKER_AUTH={asked} is for a NATS of your own; here it is accounts: leave it out")
        (options.folder / "logs").mkdir(parents=True, exist_ok=True)
        self._starting = asyncio.create_task(asyncio.to_thread(self._start_server))
        if not options.processes:  # imports take as long as the server does: at the same time
            await asyncio.to_thread(self._import_services)
        await asyncio.shield(self._starting)  # the thread cannot be stopped, so `stop` waits for it
        await self._ensure()
        if any(service.runs_workers for service in self._wanted()):
            admin = self.settings_for("admin")
            auth = ReloadedAccounts(self.server, admin)
            self._accounts = PoolAccounts(auth, admin, options.pools, self._changed)
            await self._accounts.begin()
            self._beside.append(asyncio.create_task(self._accounts.keep(self._stop)))
        self._launch([s for s in self._wanted() if not s.needs_postgres])
        self._beside.append(asyncio.create_task(self._keep_server()))
        if options.postgres:
            self._beside.append(asyncio.create_task(self._keep_postgres()))

    def _changed(self) -> None:
        self.on_change()

    def _import_services(self) -> None:
        for service in self._wanted():
            service.load()

    def _start_server(self) -> None:
        options = self.options
        folder = options.folder / "nats"
        orphan_server.end(folder)
        self._server = NatsServer(
            folder, options.port, pools=options.pools, partitions=options.partitions, own_session=True,
            monitor_port=free_port(), limited=True,
        )
        self._server.start()
        orphan_server.remember(folder, self._server.pid)

    def _restart_server(self) -> None:
        self.server.restart()
        orphan_server.remember(self.server.folder, self.server.pid)

    def _stop_server(self) -> None:
        self.server.stop()
        orphan_server.forget(self.server.folder)

    async def _ensure(self) -> None:
        from shared.bus.streams import ensure

        bus = await connect("stack", self.settings_for("admin"))
        try:
            wanted = topology.wanted(self.options.pools, self.options.partitions)
            said = topology.Provision(max_age_s=await retention.ages(bus, self.options.asked.retention))
            for drift in await ensure(bus, wanted, said, apply=True):
                changed = {"name": drift.name, "field": drift.field, "found": drift.found, "wanted": drift.wanted}
                log.warning("stream.changed" if drift.applied else "stream.drift", **changed)
        finally:
            await bus.close()

    async def _keep_server(self) -> None:
        """A nats-server that died, or no longer writes, is started again on its data; clients reconnect by
        themselves."""
        watch, looked = BrokerWatch(self.server), time.monotonic()
        while not self._stop.is_set():
            await sleep_or_stop(self._stop, POLL_S * 4)
            why = "" if self.server.running else "it ended"
            if not why and time.monotonic() - looked > EVERY_S:
                why, looked = await watch.look(), time.monotonic()
            if why and not self._stop.is_set():
                log.warning("stack.restart", child="nats-server", why=why)
                try:
                    await asyncio.to_thread(self._restart_server)
                except (Unavailable, OSError) as error:  # on a full disk not even its configuration can be written
                    log.error("stack.restart_failed", child="nats-server", error=str(error))
                    await sleep_or_stop(self._stop, 1.0)

    async def _keep_postgres(self) -> None:
        """One that does not start at all is given up: there is nobody yet who would miss it."""
        folder, wal_mb = self.options.folder / "postgres", self.options.asked.postgres_wal_mb
        try:
            self.database = await asyncio.to_thread(postgres.start, folder, wal_mb)
        except (NoetlError, OSError) as error:
            log.error("stack.no_postgres", error=str(error))
            self.read_model_error = str(error)
            return
        if not self._stop.is_set():
            self._launch([s for s in self._wanted() if s.needs_postgres])
            self._keeper = PostgresKeeper(folder, self.database, self._stop, wal_mb)
            await self._keeper.keep()

    def _launch(self, services: Sequence[Service]) -> None:
        for service in services:
            for pool in self.options.pools if service.per_pool else ("",):
                unit = self._unit(service, pool)
                self.units.append(unit)
                unit.task = asyncio.create_task(self._keep(unit), name=unit.name)

    async def _keep(self, unit: Unit) -> None:
        try:
            if self.options.processes:
                await supervise(unit.name, partial(unit.as_process, self.options.folder / "logs"), unit.stop)
            else:
                await supervise(unit.name, unit.as_task, unit.stop, give_up_after=GIVE_UP_AFTER)
        except NoetlError as error:
            if unit.service.needs_postgres:
                self.read_model_error = str(error)
            elif not self.failure.done():
                self.failure.set_exception(error)

    def _unit(self, service: Service, pool: str) -> Unit:
        name = f"{service.name}-{pool}" if pool else service.name
        user = worker_user(pool) if pool else service.name
        port = free_port() if self.options.processes else 0
        settings = self.settings_for(user, pool=pool or "default", instance=name, health_port=port)
        if service.needs_postgres:
            settings = replace(settings, postgres_dsn=self.dsn(PROJECTOR))
        return Unit(service, name, self._with_workers(settings) if service.runs_workers else settings, self._changed)

    def _with_workers(self, settings: Settings) -> Settings:
        passwords, logs = self.server.workers_file, self.options.folder / "logs"
        told = self.options.asked.targets  # else they listen to nobody
        return replace(
            settings, passwords=str(passwords), logs=str(logs), targets=str(Path(told).absolute()) if told else "",
            drain_s=settings.drain_s + WORKERS_S)

    def dsn(self, role: str = READER) -> str:
        """Of the read model; nothing while there is none."""
        return "" if self.database is None else self.database.dsn(role)

    def settings_for(self, user: str, *, pool: str = "default", instance: str = "", health_port: int = 0) -> Settings:
        options = self.options
        return Settings(
            nats_url=self.server.url,
            nats_user=user,
            nats_password=self.server.passwords[user],
            partitions=options.partitions,
            pools=options.pools,
            pool=pool,
            instance=f"{instance or user}-{os.getpid()}-{self._tag}",
            health_host=HOST,
            health_port=health_port,
            drain_s=options.drain_s,
            slots=options.slots,
            log_level=options.log_level,
            scripts=options.asked.scripts,
            duckdb_files=options.asked.duckdb_files,
            duckdb_extensions=options.asked.duckdb_extensions,
            quantum_stand_ins=options.asked.quantum_stand_ins,
            python_processes=options.asked.python_processes,
            max_skew_s=options.asked.max_skew_s,
            retention=options.asked.retention,
        )

    async def ready(self, within_s: float = READY_S) -> None:
        """Waits until every service accepts work, and longer while PostgreSQL says that it is still starting."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        wanted = sum(len(self.options.pools) if s.per_pool else 1 for s in self._wanted())
        try:
            async with asyncio.timeout(within_s) as limit:
                while len(self.units) < wanted or not all([await unit.ready() for unit in self.units]):
                    if self.failure.done():
                        self.failure.result()
                    if self.read_model_error:
                        raise Unavailable(self.read_model_error)
                    if self._keeper is not None and self._keeper.recovering:
                        limit.reschedule(min(loop.time(), began + RECOVERY_S) + within_s)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            late = [unit.name for unit in self.units if not await unit.ready()]
            who, where = ", ".join(late) or "PostgreSQL", self.options.folder / "logs"
            raise Unavailable(f"not ready after {loop.time() - began:.0f} s: {who} (see {where})") from None

    def _wanted(self) -> list[Service]:
        found = [s for s in self._services if self.options.postgres or not s.needs_postgres]
        if not self.options.processes:
            return [s for s in found if not s.runs_workers]
        kept = any(s.runs_workers for s in found)
        return [s for s in found if not (kept and s.per_pool)]

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.gather(*(unit.end() for unit in self.units if not unit.service.needs_postgres))
        if self._beside:
            await asyncio.wait(self._beside)
        await asyncio.gather(*(unit.end() for unit in self.units if unit.service.needs_postgres))
        if self.options.postgres:
            await asyncio.to_thread(postgres.stop, self.options.folder / "postgres")
        if self._starting is not None:
            await asyncio.wait({self._starting})
        if self._server is not None:
            await asyncio.to_thread(self._stop_server)
        if self.failure.done():
            self.failure.exception()  # seen, or no longer of interest
        else:
            self.failure.cancel()
