"""One service of a stack: as a task of this process, or as a child process."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from shared.runtime.embedded.child import KILL_AFTER_S, Child
from shared.runtime.embedded.nats_server import free_port, is_free
from shared.runtime.service.clock import followed
from shared.runtime.service.health import Health, is_ready
from shared.runtime.service.main import OK, Serve, alone, cancelled, connect, hold
from shared.runtime.service.settings import Settings, passed_on


class Service(Struct, frozen=True):
    """`load` imports the callable for a task; `module` is what a child process runs."""

    name: str
    module: str
    load: Callable[[], Serve]
    per_pool: bool = False
    needs_postgres: bool = False
    runs_workers: bool = False  # as processes, in place of the services per pool


class Unit:
    """One running service: its settings, its supervisor, and whether it accepts work. `moved()`: its health is at
    another address now."""

    def __init__(self, service: Service, name: str, settings: Settings, moved: Callable[[], None]) -> None:
        self.service, self.name, self.settings, self.moved = service, name, settings, moved
        self.stop = asyncio.Event()
        self.health = Health()
        self.child: Child | None = None
        self.task: asyncio.Task[None] | None = None

    async def as_task(self) -> int:
        """One life in this process, on a connection of its own."""
        serve = alone(self.service.name, self.service.load())
        bus = await connect(self.name, self.settings)
        try:
            with structlog.contextvars.bound_contextvars(service=self.name):
                async with followed(bus, self.settings.max_skew_s, self.stop) as clock:
                    if clock is None:
                        return OK
                    return await hold(self.name, serve, bus, self.settings, clock, self.stop, self.health)
        finally:
            await bus.close()

    async def as_process(self, logs: Path) -> int:
        """One life as a child. Whoever took the port of its health since the last one keeps it."""
        if not is_free(self.settings.health_port):
            self.settings = replace(self.settings, health_port=free_port())
            self.moved()
        argv = [sys.executable, "-m", self.service.module]
        self.child = Child(self.name, argv, *passed_on(self.settings), logs / f"{self.name}.log")
        return await self.child.life()

    async def ready(self) -> bool:
        if self.child is None:
            return self.health.able
        return await is_ready(self.settings.health_host, self.settings.health_port)

    async def end(self) -> None:
        """Asked politely; after its drain time and a bit it is ended for certain."""
        self.stop.set()
        if self.task is None:
            return
        if self.child is not None:
            self.child.terminate()
        _, late = await asyncio.wait({self.task}, timeout=self.settings.drain_s + KILL_AFTER_S)
        if late and self.child is not None:
            self.child.kill()
        await cancelled(self.task)
