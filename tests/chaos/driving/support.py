"""A whole system of real processes that a test may kill: nats-server, PostgreSQL, and every service as
`python -m services.<kind>` with its own user, health port and log file."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.dsl.compile import compile_playbook
from shared.errors import Unavailable
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from shared.runtime.service.health import is_ready
from shared.runtime.stores import catalog
from shared.tools import registry
from tests.chaos.driving import skewed
from tests.support.cli import environment
from tests.support.paths import ROOT
from tests.support.servers.postgres import running_postgres

PLAYBOOKS = ROOT / "tests" / "chaos" / "playbooks"
POOL = "default"
ONE = {"router": 1, "scheduler": 1, "worker": 1, "projector": 1}
TWO = {"router": 2, "scheduler": 2, "worker": 2, "projector": 1}
LEASE_S = 6.0  # over the 5 s after which a worker extends its leases
READY_S = 60.0
STOP_S = 30.0
PAUSE_S = 0.3
MEMBERS = "ghi"  # of two members with the first names each owns two of the four partitions
TAIL_LINES = 40


def quick_topology() -> topology.Topology:
    """The product's topology with leases a test can wait for."""
    wanted = topology.wanted((POOL,))
    return replace(wanted, consumers=tuple(replace(c, lease_s=LEASE_S) for c in wanted.consumers))


class Process:
    """One service under one name, life after life."""

    def __init__(self, name: str, environ: Mapping[str, str], folder: Path) -> None:
        self.name, self.kind = name, name.partition("-")[0]
        self.log = folder / f"{name}.log"
        self.code = ROOT  # the version that its next life is of
        self._environ = environ
        self._clock: Path | None = None
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **extra: str) -> None:
        assert not self.running, f"{self.name} runs already"
        self._port = free_port()
        own = {"NOETL_INSTANCE": self.name, "NOETL_HEALTH_HOST": HOST, "NOETL_HEALTH_PORT": str(self._port)}
        if self._clock is not None:
            own[skewed.CLOCK_FILE] = str(self._clock)
        environ = environment(**{**self._environ, "PYTHONPATH": str(self.code), **own, **extra})
        module = [f"services.{self.kind}"] if self._clock is None else ["tests.chaos.driving.skewed", self.kind]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *module], cwd=self.code, env=environ,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def set_clock(self, ahead_s: float) -> None:
        """Its wall clock is so far ahead: from now on if it was started with a clock of its own, which it is once
        this was called, and otherwise from its next life on."""
        self._clock = self.log.with_suffix(".clock")
        skewed.set_ahead(self._clock, ahead_s)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of this life or the last one."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    async def ready(self) -> None:
        async with asyncio.timeout(READY_S):
            while not await is_ready(HOST, self._port):
                assert self.running, f"{self.name} ended:\n{self.tail()}"
                await asyncio.sleep(0.05)

    def send(self, number: int) -> None:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, once it is gone."""
        assert self._process is not None, f"{self.name} was never started"
        return await asyncio.to_thread(self._process.wait, STOP_S)

    def end(self) -> None:
        """For certain, politely first."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def said(self, since: int = 0) -> str:
        with self.log.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def spoken(self) -> int:
        """How much it has said: a place for `said`."""
        return self.log.stat().st_size

    def tail(self) -> str:
        if not self.log.exists():  # with the folder of a cluster that is down
            return ""
        return "\n".join(self.said().splitlines()[-TAIL_LINES:])


class Cluster:
    """`sizes` is how many of each kind, three at most; the first router is `router-g`."""

    playbooks = PLAYBOOKS
    pools = (POOL,)  # its workers are of the first

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.processes: dict[str, Process] = {}
        self._sizes = sizes
        self._exit = ExitStack()

    def __enter__(self) -> "Cluster":
        try:
            asyncio.run(self.open())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._exit.close()

    async def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-chaos-"))
        self._exit.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.dsn = self._exit.enter_context(running_postgres())
        await self._start_broker()
        bus = await self.connect()
        try:
            await self._make_streams(bus)
            for file in sorted(self.playbooks.glob("*.yaml")):
                await register(bus, file.read_bytes())
        finally:
            await bus.close()
        self._exit.callback(self._stop)
        for kind, count in self._sizes.items():
            for member in MEMBERS[:count]:
                name = f"{kind}-{member}"
                self.processes[name] = Process(name, self._environ(name, await self._url(name)), self.folder)
        await self.heal()

    async def _start_broker(self) -> None:
        self.nats = NatsServer(self.folder / "nats", pools=self.pools).start()
        self._exit.callback(self.nats.stop)

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await ensure(bus, quick_topology())

    async def _url(self, name: str) -> str:
        """Where that service finds the broker."""
        return self.nats.url

    def _environ(self, name: str, url: str) -> dict[str, str]:
        kind = name.partition("-")[0]
        user = worker_user(POOL) if kind == "worker" else kind
        environ = {
            "NOETL_NATS_URL": url,
            "NOETL_NATS_USER": user,
            "NOETL_NATS_PASSWORD": self.nats.passwords[user],
            "NOETL_POOL": POOL,
        }
        if kind == "projector":
            environ["NOETL_POSTGRES_DSN"] = self.dsn
        return environ

    def environ(self, name: str) -> dict[str, str]:
        """For another process of this kind."""
        return self._environ(name, self.nats.url)

    def _stop(self) -> None:
        """Writers first, the reader of the log last."""
        for process in self.processes.values():
            if process.running:
                process.send(signal.SIGCONT)
                process.send(signal.SIGTERM)
        for process in self.processes.values():
            process.end()

    async def connect(self) -> JetStreamBus:
        """As the administrator."""
        return await connect(self.nats.url_for("admin"))

    async def heal(self) -> None:
        """Everything runs and takes work, whatever the last test did."""
        if not self.nats.running:
            await asyncio.to_thread(self.nats.restart)
        for process in self.processes.values():
            if not process.running:
                process.start()
        await asyncio.gather(*(process.ready() for process in self.processes.values()))

    def of(self, kind: str) -> list[Process]:
        return [process for process in self.processes.values() if process.kind == kind]

    async def kill(self, name: str) -> None:
        """As a crash would, and gone when this returns."""
        self.processes[name].send(signal.SIGKILL)
        await self.processes[name].ended()

    async def start_again(self, name: str, **extra: str) -> None:
        await asyncio.sleep(PAUSE_S)
        self.processes[name].start(**extra)

    async def stop(self, name: str) -> int:
        """As an operator would: its exit code."""
        self.processes[name].send(signal.SIGTERM)
        return await self.processes[name].ended()

    async def restart(self, name: str, **extra: str) -> None:
        """In order, with other settings for this life."""
        await self.stop(name)
        self.processes[name].start(**extra)
        await self.processes[name].ready()

    async def kill_nats(self) -> None:
        await asyncio.to_thread(self.nats.kill)

    async def start_nats_again(self, bus: JetStreamBus) -> None:
        """On the same port and data. The queue was in memory: a scheduler makes it, we shorten its leases."""
        await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(self.nats.start)
        await self.queue_created(bus)
        await ensure(bus, quick_topology(), apply=True)

    async def queue_created(self, bus: JetStreamBus) -> int:
        """When the command queue was made; waits until there is one."""
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    return await bus.created(topology.COMMANDS)
                except Unavailable:
                    await asyncio.sleep(0.05)

    def tails(self) -> str:
        return "\n".join(f"--- {process.name}\n{process.tail()}" for process in self.processes.values())


async def register(bus: JetStreamBus, source: bytes) -> None:
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    await catalog.register(bus, source, compiled.plan)
