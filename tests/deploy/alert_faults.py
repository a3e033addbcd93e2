"""Faults of a real stack, each of which has to make alerts fire (`alerts.py`)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.events import subjects
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from shared.runtime.service import targets
from tests.chaos.driving.skewed import CLOCK_FILE, set_ahead
from tests.deploy.metrics import scraped
from tests.support.cli import environment
from tests.support.pool_ctl import Ctl, on_broker
from tests.support.waiting import wait_until

LIMIT, BALLAST = 12_000_000, 100_000  # bytes
KILLS = 5
TINY = 100  # bytes: less than a command has
STEPS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: alerts/{name}}}
workflow:
  - step: start
    tool: {{kind: shell, cmds: ["{command}"]}}
    next: {{arcs: [{{step: then}}]}}
  - step: then
    tool: {{kind: noop}}
"""


class World:
    """A whole stack (`noetlctl up`), and a router that is alone with a small broker and a clock that can be set."""

    def __init__(self, ctl: Ctl, folder: Path) -> None:
        self.ctl, self.folder = ctl, folder
        self.targets = ctl.folder / ".noetl" / targets.FOLDER
        self.clock, self.lone_port = folder / "ahead", free_port()
        self.small = NatsServer(folder / "small")
        self.small.max_file_store = LIMIT
        self.small.configure(("default",))
        self.lone: subprocess.Popen[bytes] | None = None

    @contextmanager
    def lone_router(self) -> Iterator[None]:
        set_ahead(self.clock, 0.0)
        self.small.start()
        asyncio.run(self._prepared())
        given = {
            "NOETL_NATS_URL": self.small.url, "NOETL_NATS_USER": "router", "NOETL_HEALTH_HOST": HOST,
            "NOETL_NATS_PASSWORD": self.small.passwords["router"], "NOETL_HEALTH_PORT": str(self.lone_port),
            CLOCK_FILE: str(self.clock),
        }
        with (self.folder / "lone.log").open("wb") as log:
            self.lone = subprocess.Popen([sys.executable, "-m", "tests.chaos.driving.skewed", "router"],
                                         env=environment(**given), stdout=log, stderr=log)
        try:
            wait_until(lambda: scraped(self.lone_address), "the lone router answers", despite=(OSError,))
            targets.write(self.targets / "lone.json", {"lone": self.lone_address})
            yield
        finally:
            self.lone.kill()
            self.lone.wait()
            self.small.stop()

    @property
    def lone_address(self) -> str:
        return f"{HOST}:{self.lone_port}"

    async def _prepared(self) -> None:
        bus = await connect(self.small.url_for("admin"))
        try:
            await ensure(bus, topology.wanted())
        finally:
            await bus.close()

    def execute(self, name: str, command: str, count: int = 1) -> list[str]:
        file = self.folder / f"{name}.yaml"
        file.write_text(STEPS.format(name=name, command=command))
        assert self.ctl("register", str(file))[0] == 0
        found = []
        for _ in range(count):
            code, out, err = self.ctl("execute", f"alerts/{name}")
            assert code == 0, err
            found.append(out.strip())
        return found


Undo = Callable[[], None]


def _nothing() -> None:
    """The fault is over by itself, or with the world."""


def wrong_clock(world: World) -> Undo:
    set_ahead(world.clock, 3.0)
    return lambda: set_ahead(world.clock, 0.0)


def full_store(world: World) -> Undo:
    async def fill() -> None:
        bus = await connect(world.small.url_for("admin"))
        try:
            number = 0
            while (found := await bus.storage()).used < 0.85 * found.limit:
                number += 1
                await bus.append(f"{subjects.RESULTS}.ballast.{number}.0", b"x" * BALLAST)
        finally:
            await bus.close()

    asyncio.run(fill())
    return _nothing


def no_broker(world: World) -> Undo:
    world.small.stop()
    return _nothing


def killed_service(world: World) -> Undo:
    assert world.lone is not None
    world.lone.kill()
    return lambda: targets.remove(world.targets / "lone.json")


def pool_without_workers(world: World) -> Undo:
    world.ctl.apply("nobody", backend="external")
    execution = world.ctl.start("nobody", count=3)

    def undo() -> None:
        assert world.ctl("cancel", execution)[0] == 0

    return undo


def killed_workers(world: World) -> Undo:
    """Each while it has runs in its hands, and has said so. New ones for each: one that loses every worker fails."""
    executions, before = list[str](), 0
    for _ in range(KILLS):
        executions.append(world.ctl.start("default", count=2, nap=600))

        def holding(other: int = before) -> int:
            workers = world.ctl.json("pool", "workers", "default")
            return next((each["pid"] for each in workers if each["pid"] not in (0, other) and each["held"]), 0)

        before = wait_until(holding, "a worker has runs in its hands", 60, every_s=0.3)
        with suppress(ProcessLookupError):
            os.kill(before, signal.SIGKILL)

    def undo() -> None:
        for execution in executions:
            world.ctl("cancel", execution)  # it may be over

    return undo


def failing_tasks(world: World) -> Undo:
    """For some seconds: an alert that looks at how many there are in a second needs two looks at least."""
    for _ in range(6):
        world.execute("broken", "exit 3", count=2)
        time.sleep(2)
    return _nothing


def full_queue(world: World) -> Undo:
    """No command fits into the queue: what asks for one is not handled, and waits."""
    async def limit(bus: JetStreamBus, size: int) -> None:
        config = (await bus.requests.api(f"STREAM.INFO.{topology.COMMANDS}"))["config"]
        await bus.requests.api(f"STREAM.UPDATE.{topology.COMMANDS}", {**config, "max_bytes": size})

    on_broker(world.ctl, lambda bus: limit(bus, TINY))
    world.execute("waits", "true", count=4)
    return lambda: on_broker(world.ctl, lambda bus: limit(bus, -1))


def unwritable_database(world: World) -> Undo:
    """As after a failover to a replica: the projector's user may only read, from its next connection on."""
    dsn = world.ctl.up.context["postgres_admin_dsn"]

    async def set_so(statement: str) -> None:
        db = await asyncpg.connect(dsn)
        try:
            await db.execute("SET default_transaction_read_only = off")
            await db.execute(f"ALTER ROLE CURRENT_USER {statement}")
            await db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                             " WHERE usename = current_user AND pid <> pg_backend_pid()")
        finally:
            await db.close()

    asyncio.run(set_so("SET default_transaction_read_only = on"))
    world.execute("unseen", "true")
    return lambda: asyncio.run(set_so("RESET default_transaction_read_only"))


def rubbish_in_the_log(world: World) -> Undo:
    """Whoever may write everything writes where a router does, of an execution that runs."""
    [execution] = world.execute("spoilt", "sleep 600")
    wait_until(lambda: world.ctl.status(execution), "it runs", so=lambda found: found == "running")
    partition = subjects.partition_of(execution, topology.PARTITIONS)

    async def spoil(bus: JetStreamBus) -> None:
        await bus.append(subjects.event(partition, execution, "router"), json.dumps({"no": "record"}).encode())

    on_broker(world.ctl, spoil)
    return _nothing


FAULTS: dict[Callable[[World], Undo], tuple[str, ...]] = {
    wrong_clock: ("NoetlClockSkew",),
    full_store: ("NoetlStoreNearlyFull",),
    no_broker: ("NoetlBrokerAway",),
    killed_service: ("NoetlDown",),
    pool_without_workers: ("NoetlPoolStuck", "NoetlPoolWithoutWorkers"),
    killed_workers: ("NoetlWorkersCrash", "NoetlWorkersLost"),
    failing_tasks: ("NoetlTaskErrors",),
    full_queue: ("NoetlLag",),
    unwritable_database: ("NoetlNotReady", "NoetlProjectorLag"),
    rubbish_in_the_log: ("NoetlSetAside", "NoetlDeadLetters"),
}
