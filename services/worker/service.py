"""The worker: runs commands of one pool, as many at a time as it has slots."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog

from services.worker.capacity import Room
from services.worker.counts import Counts
from services.worker.figures import Figures
from services.worker.frame import FrameRun
from services.worker.heartbeat import Beating
from services.worker.history import Histories
from services.worker.hold import Around, Hold, Run
from services.worker.interpreter import Outside
from services.worker.lease_keeper import Minding
from services.worker.local import MAX_CRASHES, LocalRun
from services.worker.presence import Presence
from services.worker.run import StepRun
from services.worker.tool_turn import NoRoom
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.model.plan import PlanMissing
from shared.engine.pipeline.local_machine import HandedBack
from shared.engine.pipeline.ownership import Fenced
from shared.errors import Corrupt, NoetlError, Refused, Signal, Unreadable
from shared.events import command as commands
from shared.events import stop as stops
from shared.events import subjects
from shared.events.beat import Key
from shared.events.command import Command, key_of
from shared.events.run_index import is_frame
from shared.runtime.service.background import run_until
from shared.runtime.service.health import figures
from shared.runtime.service.listener import listen
from shared.runtime.service.one_name import is_anothers
from shared.runtime.service.settings import Settings
from shared.runtime.stores import results
from shared.runtime.stores.plans import Plans
from shared.tools.base.contract import ToolOptions
from shared.tools.toolbox import Tools

log = structlog.get_logger()
LATER_S = 2.0
MOST_S = 60.0
MOST_TRIES = 5  # of a run that reads a value which is not there
DOUBLED = 10  # times that a pause may get twice as long


class Later(Signal):
    """The run cannot continue now."""

    def __init__(self, why: str, delay: float) -> None:
        super().__init__(why)
        self.delay = delay


def pause_s(times: int) -> float:
    """Before the next delivery of a run that was handed back so many times for the same reason: whatever it is, the log
    must not fill with it."""
    return float(min(MOST_S, LATER_S * 2 ** min(times, DOUBLED)))


class Worker:
    def __init__(self, bus: Bus, settings: Settings, clock: Clock, tools: Tools) -> None:
        self._bus, self._settings, self._clock, self._tools = bus, settings, clock, tools
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._plans = Plans(bus)
        self._presence = Presence(self._now)
        histories = Histories(bus, settings.partitions)
        self._counts = counts = Counts()
        self._outside = Outside(bus, clock, tools, histories, settings.instance, settings.partitions, counts)
        self._holds: dict[Key, Hold] = {}
        self._around = Around(bus, clock, self._presence, settings.pool, settings.instance, os.getpid(), counts)
        self._minding = Minding(self._around, self._holds)
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Event()
        self._room = Room(settings.slots)
        self._draining = False
        self._beating = Beating(
            self._around, settings, self._holds, self._room, tools, lambda: self._draining)
        self.figures = Figures(settings, counts, tools, self._presence, lambda: len(self._holds))

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Until `stop`; then accepts nothing new and finishes what it holds. Cancelled, it hands back."""
        minding = self._minding
        work = (minding.extend(), minding.hear(), self._beating.run(), self._hear())
        loops = [asyncio.create_task(each) for each in work]
        try:
            await run_until(stop, self._take(ready), finish=self._drain(stop))
        finally:
            for task in (*loops, *self._tasks):
                task.cancel()
            await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
            await minding.close()
            if not is_anothers():
                await self._beating.goodbye()
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
                deliveries = await consumer.batch(slots - len(self._tasks))
                now = self._clock.now()
                for delivery in deliveries:
                    self._counts.took(delivery.epoch, now)
                    self._start(delivery, mark)
                self._beating.took()
        finally:
            await consumer.close()

    def _start(self, delivery: Delivery, mark: int) -> None:
        self._tasks.add(self._loop.create_task(self._work(delivery, mark)))

    async def _drain(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._draining = True
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    # -- one run -----------------------------------------------------------------------

    async def _work(self, delivery: Delivery, mark: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            command = _read(delivery)
            if command is None:
                await delivery.ack()  # commands are derived: the scheduler issues a good one when asked to
            elif (held := self._holds.get(key_of(command))) is not None:
                await held.take(command, delivery, mark)
                self._minding.look(held)
            else:
                await self._hold(Hold(self._around, command, delivery, mark, self._now()), task)
        except Exception:
            log.exception("run.crashed")
        finally:
            self._tasks.discard(task)
            self._free.set()

    async def _hold(self, hold: Hold, task: "asyncio.Task[None]") -> None:
        self._holds[hold.key], hold.task = hold, task
        try:
            await self._turn(hold)
            while hold.renew():
                if self._draining:
                    await hold.refuse()
                    break
                await self._turn(hold)
        finally:
            del self._holds[hold.key]
            hold.let_go()

    async def _turn(self, hold: Hold) -> None:
        """From a delivery to its acknowledgement."""
        self._room.took(hold.command.root or hold.key[0])
        try:
            await self._run(hold)
            await hold.end()
        except Fenced as fenced:
            await hold.lose(fenced)
        except HandedBack:
            await hold.hand_back("the worker stops")
        except NoRoom as full:
            if not full.begun:
                hold.run = None  # nothing of the lease is in the log, and nothing has to be
            await hold.hand_back(str(full), full.delay)
        except Later as later:
            log.warning("run.later", execution_id=hold.key[0], run_id=hold.key[1], error=str(later))
            await hold.hand_back(str(later), later.delay)
        except (Refused, Unreadable) as error:  # it will be so later too
            log.error("run.refused", execution_id=hold.key[0], run_id=hold.key[1], error=str(error))
            await self._fail(hold, error)
        except asyncio.CancelledError:
            await self._cut_short(hold)
        except Exception as error:
            self._counts.crashed += 1
            log.exception("run.crashed", execution_id=hold.key[0], run_id=hold.key[1])
            await self._crashed(hold, error)

    async def _run(self, hold: Hold) -> None:
        """Raises Later when it is to be tried again after a while."""
        try:
            hold.run = await self._made(hold)
            await hold.run.run()
        except (Refused, Unreadable):
            raise
        except NoetlError as error:
            why = str(error)
            times = await self._released(hold, why)
            if isinstance(error, results.ValueMissing):
                times = hold.epoch[1] - 1 if times is None else times
                if times >= MOST_TRIES - 1:
                    raise Unreadable(why) from None
            raise Later(why, pause_s(times or 0)) from None

    async def _released(self, hold: Hold, why: str) -> int | None:
        """How many times in a row it was handed back for this reason; None if the log does not tell."""
        if hold.run is None or hold.epoch[1] == 1:
            return None
        with suppress(NoetlError):
            return await hold.run.released(why)
        return None

    async def _cut_short(self, hold: Hold) -> None:
        """It was told to stop, another worker has it, or this worker ends."""
        task = asyncio.current_task()
        assert task is not None
        if hold.stopped:
            task.uncancel()
            await self._say_stopped(hold)
        elif hold.fenced is not None:
            task.uncancel()
            log.info("run.fenced", execution_id=hold.key[0], run_id=hold.key[1], index=hold.key[2])
            await hold.lose(hold.fenced)
        else:
            await hold.hand_back("the worker stops")
            raise asyncio.CancelledError

    async def _made(self, hold: Hold) -> Run:
        command, settings = hold.command, self._settings
        try:
            plan = self._plans(command.digest)
        except PlanMissing:
            plan = await self._plans.load(command.digest)
        if is_frame(command.index):
            return FrameRun(self._outside, plan, command, hold)
        if command.local is None:
            return StepRun(self._outside, plan, command, hold)
        return LocalRun(self._outside, plan, command, hold, lambda: self._draining, settings.slots)

    async def _say_stopped(self, hold: Hold) -> None:
        """The router or the scheduler waits for this record. A second stop, or the worker's own end, may cut this
        short."""
        if hold.run is not None:
            with suppress(NoetlError):
                await hold.run.stopped()
        await hold.end()

    async def _crashed(self, hold: Hold, error: Exception) -> None:
        """A fault of ours: tried again on another delivery, then the run fails, because it would be delivered for
        ever."""
        if hold.epoch[1] < MAX_CRASHES:
            await self._hand_back(hold, error)
        else:
            await self._fail(hold, error)

    async def _fail(self, hold: Hold, error: Exception) -> None:
        """If not even that can be written, an operator has to change something first."""
        if hold.run is not None:
            try:
                await hold.run.give_up(error)
            except NoetlError as unsaid:
                log.error("run.not_failed", execution_id=hold.key[0], run_id=hold.key[1], error=str(unsaid))
            else:
                await hold.end()
                return
        await self._hand_back(hold, error)

    async def _hand_back(self, hold: Hold, error: Exception) -> None:
        await hold.hand_back(f"{type(error).__name__}: {error}", pause_s(hold.epoch[1] - 1))

    # -- words to the pool -------------------------------------------------------------

    async def _hear(self) -> None:
        """Listens for runs that are to stop."""
        await listen(self._bus, subjects.stops(self._settings.pool), self._stop)

    def _stop(self, data: bytes) -> None:
        try:
            stop = stops.decode(data)
        except Corrupt as error:
            log.error("stop.corrupt", error=str(error))
            return
        for hold in [hold for key, hold in self._holds.items() if key[:2] == (stop.execution_id, stop.run_id)]:
            if stop.pause:
                hold.pause(stop.at)
            elif hold.stop():
                log.info("run.stops", execution_id=hold.key[0], run_id=hold.key[1], index=hold.key[2])


def _read(delivery: Delivery) -> Command | None:
    try:
        return commands.decode(delivery.data)
    except Corrupt as error:
        log.error("command.corrupt", subject=delivery.subject, error=str(error))
        return None


async def serve(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    options = ToolOptions(settings.python_processes, duckdb_extensions=settings.duckdb_extensions,
                          duckdb_files=settings.duckdb_files, scripts=settings.scripts,
                          quantum_stand_ins=settings.quantum_stand_ins,
                          load=partial(results.load, bus))
    tools = Tools(options, settings.tools_disabled)
    worker = Worker(bus, settings, clock, tools)
    figures(worker.figures.samples)
    await worker.run(stop, ready)
