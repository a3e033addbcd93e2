"""Workers as children of this service: started again with backoff when they die, ended with SIGTERM, with a second
one when their time is over (they hand back what they hold), and killed at last. One that is frozen is killed, and
started again. When this service is killed, the kernel tells them to end."""

import asyncio
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog
from msgspec.structs import replace

from services.pools.backends import Attended, Running
from shared.bus.permissions import worker_user
from shared.bus.ports import Clock
from shared.dsl.documents.pools import Pool
from shared.runtime.embedded.child import Child
from shared.runtime.embedded.nats_server import HOST, free_port, is_free
from shared.runtime.service import targets
from shared.runtime.service.settings import Settings, passed_on
from shared.runtime.service.supervisor import HEALTHY_AFTER_S, supervise
from shared.runtime.stores.pools import Crash, WorkerStatus

COMMAND = (sys.executable, "-m", "services.worker")
HAND_BACK_S = 5.0  # for handing back, once its time is over
AGAIN_S = 0.5
ANYWHERE = ("0.0.0.0", "::")
MAX_CRASHES = 10  # remembered of a worker
log = structlog.get_logger()


class Worker:
    """One place in a pool: one process after another under one name."""

    def __init__(
        self, pool: Pool, number: int, template: str, settings: Settings, tag: str, clock: Clock,
        told: Callable[[str, str], None],
    ) -> None:
        self.pool, self.number, self.template, self._clock = pool.name, number, template, clock
        self.name = f"{pool.name}-{number}-{tag}"
        self.log = Path(settings.logs or ".") / f"worker-{pool.name}-{number}.log"
        user = worker_user(pool.name) if settings.nats_user else ""
        own = replace(
            settings, nats_user=user, role="worker", pool=pool.name, slots=pool.slots, provides=pool.provides,
            tools_disabled=pool.tools_disabled, drain_s=pool.drain_s, instance=self.name,
            health_port=free_port() if settings.targets else 0, passwords="", logs="", targets="", postgres_dsn="",
            postgres_admin_dsn="",
        )
        self._own, self._child = own, Child(self.name, COMMAND, *passed_on(own), self.log)
        self._told = told
        self._stop = asyncio.Event()
        self._began = 0.0
        self._failures = 0
        self.crashes: tuple[Crash, ...] = ()
        self._killed = ""
        self._ended = ""
        self._since = 0.0
        self._due = float("inf")
        self.task = asyncio.create_task(supervise(self.name, self._life, self._stop))
        self._ending: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it answers, on this machine; empty: nowhere."""
        host = self._own.health_host
        return f"{HOST if host in ANYWHERE else host}:{self._own.health_port}" if self._own.health_port else ""

    async def _life(self) -> int:
        if self._own.health_port and not is_free(self._own.health_port):  # whoever took it since keeps it
            self._own = replace(self._own, health_port=free_port())
            self._child = Child(self.name, COMMAND, *passed_on(self._own), self.log)
        self._began, self._since = time.monotonic(), self._clock.now()
        code = await self._child.life()
        short = time.monotonic() - self._began < HEALTHY_AFTER_S
        self._failures = self._failures + 1 if short else 1
        self._ended = f"exit code {code}" + (f", killed: {self._killed}" if self._killed else "")
        self._killed = ""
        if not self._stop.is_set():
            crash = Crash(self._clock.now(), self.name, self._ended, str(self.log))
            self.crashes = (*self.crashes[1 - MAX_CRASHES :], crash)
        self._told(self.pool, self.name)
        return code

    def kill(self, why: str) -> None:
        """Once in a life: one that is killed may take a while to be gone."""
        if not self._killed and self._child.pid is not None:
            log.error("worker.killed", worker=self.name, pool=self.pool, why=why)
            self._killed = why
            self._child.kill()

    def stop(self, within_s: float) -> None:
        self._due = min(self._due, time.monotonic() + within_s)
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        self._stop.set()
        self._terminate()
        while not self.task.done() and time.monotonic() < self._due:
            await asyncio.wait({self.task}, timeout=min(AGAIN_S, max(0.05, self._due - time.monotonic())))
        last = time.monotonic() + HAND_BACK_S
        while not self.task.done() and time.monotonic() < last:
            await asyncio.wait({self.task}, timeout=AGAIN_S)
            if not self.task.done():
                self._terminate()
        if not self.task.done():
            self._child.kill()
            await asyncio.wait({self.task})

    def _terminate(self) -> None:
        with suppress(ProcessLookupError):
            self._child.terminate()

    async def ended(self) -> None:
        assert self._ending is not None, "ask it to stop first"
        await self._ending

    @property
    def status(self) -> WorkerStatus:
        pid = self._child.pid or 0
        well = pid and time.monotonic() - self._began > HEALTHY_AFTER_S
        return WorkerStatus(
            self.name, pid, self._since, self._ending is not None, 0 if well else self._failures, self._ended,
            str(self.log),
        )


class ProcessBackend:
    """`settings` are those of this service; the passwords of worker users are read when one is needed. `told(pool,
    worker)` is called when a process has ended, however it did."""

    def __init__(self, settings: Settings, clock: Clock, told: Callable[[str, str], None]) -> None:
        self._settings, self._clock, self._told = settings, clock, told
        self._tag = secrets.token_hex(2)  # a worker of an earlier life may still be ending under its name
        self._workers: dict[str, Worker] = {}
        self._told_of: dict[str, str] = {}
        if settings.logs:
            Path(settings.logs).mkdir(parents=True, exist_ok=True)

    def attend(self, look: Attended) -> None:
        return

    def missing(self, pool: Pool) -> str:
        if self._as_worker(pool.name) is not None:
            return ""
        user, own = worker_user(pool.name), self._settings.nats_creds_file or self._settings.nats_nkey_file
        if own:
            folder = self._settings.passwords or "the folder that NOETL_PASSWORDS names"
            return f"no account: {user}{Path(own).suffix} is not in {folder}"
        if not self._settings.passwords:
            return f"no account: NOETL_PASSWORDS is not set, and with it the password of {user}"
        return (
            f"no account: add the pool to the server configuration, and the password of {user} to "
            f"{self._settings.passwords}"
        )

    def start(self, pool: Pool, template: str, count: int) -> None:
        settings = self._as_worker(pool.name)
        assert settings is not None, "ask what is missing first"
        for _ in range(count):
            taken = {worker.number for worker in self._workers.values() if worker.pool == pool.name}
            number = next(n for n in range(1, len(taken) + 2) if n not in taken)
            worker = Worker(pool, number, template, settings, self._tag, self._clock, self._told)
            self._workers[worker.name] = worker
            log.info("worker.started", worker=worker.name, pool=pool.name)
        self._forget()

    def stop(self, name: str, within_s: float) -> None:
        worker = self._workers[name]
        if not worker.status.stopping:
            log.info("worker.stopping", worker=name, pool=worker.pool, within_s=within_s)
        worker.stop(within_s)

    def kill(self, name: str, why: str) -> None:
        self._workers[name].kill(why)

    def workers(self, pool: str) -> Sequence[Running]:
        self._forget()
        return [Running(w.status, w.template, w.crashes) for w in self._workers.values() if w.pool == pool]

    def pools(self) -> Sequence[str]:
        self._forget()
        return sorted({worker.pool for worker in self._workers.values()})

    async def close(self, within_s: float) -> None:
        for worker in self._workers.values():
            worker.stop(within_s)
        await asyncio.gather(*(worker.ended() for worker in self._workers.values()))
        self._forget()

    def _forget(self) -> None:
        for name in [name for name, worker in self._workers.items() if worker.task.done()]:
            del self._workers[name]
        self._tell_targets()

    def _tell_targets(self) -> None:
        """Where the workers answer, for a Prometheus. A disk that is full must not keep them from their work."""
        found = {name: worker.address for name, worker in self._workers.items() if worker.address}
        if found == self._told_of:
            return
        try:
            targets.write(Path(self._settings.targets) / targets.WORKERS, found)
            self._told_of = found
        except OSError as error:
            log.warning("targets.not_written", error=str(error))

    def _as_worker(self, pool: str) -> Settings | None:
        """With the password of the pool's user, or with its file of the same kind as this service's own."""
        settings = self._settings
        if own := settings.nats_creds_file or settings.nats_nkey_file:
            file = Path(settings.passwords) / f"{worker_user(pool)}{Path(own).suffix}"
            if not settings.passwords or not file.is_file():
                return None
            of_creds = bool(settings.nats_creds_file)
            return replace(settings, nats_creds_file=str(file) if of_creds else "",
                           nats_nkey_file="" if of_creds else str(file))
        password = self._password(pool)
        return None if password is None else replace(settings, nats_password=password)

    def _password(self, pool: str) -> str | None:
        """Empty without users on the broker. The file may be being rewritten at this moment."""
        if not self._settings.passwords:
            return None if self._settings.nats_user else ""
        try:
            known = msgspec.json.decode(Path(self._settings.passwords).read_bytes(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return None
        return known.get(worker_user(pool))
