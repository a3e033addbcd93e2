"""The worker: takes commands of one pool, up to its slots, and runs their pipelines."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import metadata

import msgspec
import structlog

from services.worker.frame import FrameRun
from services.worker.history import Histories
from services.worker.local import MAX_CRASHES, HandedBack, LocalRun
from services.worker.presence import Presence
from services.worker.room import LOOK_S, Room
from services.worker.run import Fenced, StepRun
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.engine.held import History
from shared.errors import Corrupt, NoetlError
from shared.events import command as commands
from shared.events import stop as stops
from shared.events import subjects
from shared.events.beat import Beat, Key
from shared.events.command import Command
from shared.events.index import frame_of
from shared.runtime import results
from shared.runtime.clock import SystemClock
from shared.runtime.plans import Plans
from shared.runtime.settings import Settings
from shared.runtime.tasks import run_until
from shared.tools.contract import ToolOptions
from shared.tools.open import Tools

log = structlog.get_logger()
BEAT_S = 1.5
EXTEND_S = topology.COMMAND_LEASE_S / 3
LATER_S = 2.0
Held = StepRun | LocalRun | FrameRun


class Worker:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock, tools: Tools) -> None:
        self._bus, self._settings, self._clock, self._tools = bus, settings, clock, tools
        self._plans = Plans(bus)
        self._presence = Presence(clock)
        self._histories = Histories(bus, settings.partitions)
        self._held: dict[Key, Delivery] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._stopped: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Event()
        self._room = Room(settings.slots)
        self._taken = asyncio.Event()
        self._draining = False
        self._started, self._version = clock.now(), _version()
        self._local: dict[tuple[str, str], LocalRun] = {}

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Until `stop`; then takes nothing new and finishes what it holds. Cancelled, it hands back."""
        loops = [asyncio.create_task(work) for work in (self._extend(), self._beat(), self._hear())]
        try:
            await run_until(stop, self._take(ready), finish=self._drain(stop))
        finally:
            for task in (*loops, *self._tasks):
                task.cancel()
            await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
            await self._say_goodbye()
            await self._tools.close()

    async def _take(self, ready: Callable[[], None]) -> None:
        slots = self._settings.slots
        consumer = await self._bus.consume(topology.COMMANDS, self._settings.pool, slots)
        ready()
        try:
            while True:
                while len(self._tasks) >= slots:
                    self._free.clear()
                    await self._free.wait()
                mark = self._presence.absences()
                for delivery in await consumer.batch(slots - len(self._tasks)):
                    self._start(delivery, mark)
                self._taken.set()
        finally:
            await consumer.close()

    def _start(self, delivery: Delivery, mark: int) -> None:
        task = asyncio.create_task(self._work(delivery, mark))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._free.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("run.crashed", exc_info=task.exception())

    async def _drain(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._draining = True
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _work(self, delivery: Delivery, mark: int) -> None:
        try:
            command = commands.decode(delivery.data)
        except Corrupt as error:
            log.error("command.corrupt", subject=delivery.subject, error=str(error))
            await delivery.ack()  # commands are derived: the scheduler issues a good one when asked to
            return
        key = (command.execution_id, command.run_id, command.index)
        if key in self._held:
            await delivery.nak(LATER_S)  # issued again while it runs here: by then it may be over
            return
        task = asyncio.current_task()
        assert task is not None
        self._held[key], self._running[key] = delivery, task
        self._room.took(command.execution_id)
        run: Held | None = None
        try:
            run = await self._made(command, delivery, mark)
            await run.run()
            await delivery.ack()
        except Fenced as fenced:
            if fenced.needless:
                await delivery.ack()
        except HandedBack:
            await delivery.nak()
        except NoetlError as error:
            log.warning("run.later", execution_id=key[0], run_id=key[1], error=str(error))
            await delivery.nak(LATER_S)
        except asyncio.CancelledError:
            if key not in self._stopped:
                await delivery.nak()
                raise
            task.uncancel()
            await self._say_stopped(delivery, run)
        except Exception as error:
            log.exception("run.crashed", execution_id=key[0], run_id=key[1])
            await self._crashed(delivery, run, error)
        finally:
            del self._held[key], self._running[key]
            self._local.pop(key[:2], None)
            self._stopped.discard(key)

    async def _made(self, command: Command, delivery: Delivery, mark: int) -> Held:
        plan, settings = await self._plans.load(command.digest), self._settings

        def one(command: Command, mark: int, before: History | None = None) -> StepRun:
            return StepRun(
                self._bus, self._clock, self._tools, plan, command, delivery, settings.instance, settings.partitions,
                self._presence.absences, mark, self._histories, before,
            )

        if frame_of(command.index) >= 0:
            return FrameRun(
                self._bus, self._clock, self._tools, plan, command, delivery, settings.instance, settings.partitions,
                self._presence.absences, mark, self._histories,
            )
        if command.local is None:
            return one(command, mark)
        run = self._local[command.execution_id, command.run_id] = LocalRun(
            self._bus, self._clock, plan.steps[command.step], command, delivery, settings.instance,
            settings.partitions, self._presence.absences, mark, one, lambda: self._draining, settings.slots,
        )
        return run

    async def _say_stopped(self, delivery: Delivery, run: Held | None) -> None:
        """Someone waits to hear it. A second stop, or the worker's own end, may cut this short."""
        if run is not None:
            with suppress(NoetlError):
                await run.stopped()
        await delivery.ack()

    async def _hear(self) -> None:
        """Runs that are to stop."""
        inbox = await self._bus.subscribe(subjects.stops(self._settings.pool))
        try:
            while True:
                self._stop(await inbox.next())
        finally:
            await inbox.close()

    def _stop(self, data: bytes) -> None:
        try:
            stop = stops.decode(data)
        except Corrupt as error:
            log.error("stop.corrupt", error=str(error))
            return
        if stop.pause:
            held = self._local.get((stop.execution_id, stop.run_id))
            if held is not None:
                held.pause(stop.at)
            return
        for key, task in self._running.items():
            if key[:2] == (stop.execution_id, stop.run_id) and key not in self._stopped:
                log.info("run.stops", execution_id=key[0], run_id=key[1], index=key[2])
                self._stopped.add(key)
                task.cancel()

    async def _crashed(self, delivery: Delivery, run: Held | None, error: Exception) -> None:
        """A fault of ours: tried again on another delivery, then the run fails instead of coming for ever."""
        tries = delivery.epoch[1]
        if run is None or tries < MAX_CRASHES:
            await delivery.nak(LATER_S * tries)
            return
        await run.give_up(error)
        await delivery.ack()

    async def _extend(self) -> None:
        while True:
            await self._clock.sleep(EXTEND_S)
            for delivery in list(self._held.values()):
                await delivery.progress()

    async def _beat(self) -> None:
        """Every BEAT_S, and as soon as there is more or less room."""
        while True:
            try:
                await self._bus.kv_put(topology.WORKERS, self._beat_key(), msgspec.json.encode(self._said()))
                self._presence.confirm()
            except NoetlError as error:
                log.warning("beat.lost", error=str(error))
            until = self._clock.now() + BEAT_S
            while self._clock.now() < until:
                await self._rest(until - self._clock.now())
                if self._room.look(self._tools.under_way):
                    break

    async def _rest(self, left: float) -> None:
        """A worker that has nothing to do is not woken to look at its room."""
        if self._running or not self._room.is_quiet:
            await self._clock.sleep(min(LOOK_S, left))
            return
        self._taken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._taken.wait()

    def _said(self) -> Beat:
        settings = self._settings
        return Beat(
            settings.instance, settings.pool, settings.slots, list(self._held), self._room.size,
            host=socket.gethostname(), pid=os.getpid(), started=self._started, version=self._version,
            provides=settings.provides, draining=self._draining,
        )

    async def _say_goodbye(self) -> None:
        try:
            await self._bus.kv_delete(topology.WORKERS, self._beat_key())
        except NoetlError:
            log.warning("beat.lost", error="could not say goodbye; the entry expires by itself")

    def _beat_key(self) -> str:
        return f"{self._settings.pool}.{self._settings.instance}"


def _version() -> str:
    try:
        return metadata.version("noetl-jetstream")
    except metadata.PackageNotFoundError:  # run from its source
        return ""


async def serve(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    tools = Tools(ToolOptions(settings.python_processes, duckdb_extensions=settings.duckdb_extensions,
                              scripts=settings.scripts, load=partial(results.load, bus)), settings.tools_disabled)
    await Worker(bus, settings, SystemClock(), tools).run(stop, ready)
