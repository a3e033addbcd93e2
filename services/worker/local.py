"""A local loop on this worker: its iterations are concurrent tasks of the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import Any

from services.worker import local_history
from services.worker.hold import Hold
from services.worker.interpreter import Interpreter, Outside, lease_of
from services.worker.run import StepRun, Within
from services.worker.tool_turn import NoRoom, Turn, is_patient
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline import local_machine
from shared.engine.pipeline.effects import Effect
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.local_machine import LocalMachine
from shared.engine.pipeline.ownership import Fenced
from shared.errors import NoetlError, Unreadable
from shared.events import model as ev
from shared.events.beat import Saying
from shared.events.command import Command

MAX_CRASHES = 3  # deliveries of a command that end in an error of the worker itself


class LocalRun(Interpreter):
    """`slots` bound how many iterations run at a time, whatever the loop allows."""

    def __init__(
        self, outside: Outside, plan: Plan, command: Command, hold: Hold, stopping: Callable[[], bool], slots: int
    ) -> None:
        lease = lease_of(outside, command, hold)
        machine = LocalMachine(plan.steps[command.step], command, lease, {}, slots)
        super().__init__(outside, plan, command, hold, machine, hold.mark)
        self._stopping = stopping
        self._turn = Turn(outside.tools, outside.clock, command, hold.epoch[1])
        self._running: dict[asyncio.Task[None], tuple[int, StepRun]] = {}
        self._cut: list[StepRun] = []
        self._paused = False

    async def run(self) -> None:
        """Raises Fenced if another worker has the loop or it is over, HandedBack if this worker stops, NoRoom if all of
        it waits for a turn that does not come; any return means: acknowledge."""
        try:
            await super().run()
        finally:
            await self._leave()

    async def stopped(self) -> None:
        for run in self._cut:
            with suppress(NoetlError):
                await run.stopped()
        await super().stopped()

    async def release(self, why: str) -> None:
        """Also for the iterations that were cut short."""
        await asyncio.gather(*(run.release(why) for run in self._cut), return_exceptions=True)
        await super().release(why)

    def saying(self) -> Iterable[Saying]:
        return chain.from_iterable(run.saying() for _, run in self._running.values())

    def pause(self, at: int) -> None:
        """What is in flight finishes, and nothing more begins. A pause from before this command is an old one."""
        self._paused = self._paused or at > self._command.since

    async def _read(self) -> LoopHistory:
        return await local_history.read(self._bus, self._outside.partitions, self._command)

    async def _known(self) -> None:
        """One that is paused continues under a later lease."""
        local_machine.check(self._lease, await self._read())

    # -- effects -------------------------------------------------------------------------

    async def _do(self, effect: Effect) -> Any:
        match effect:
            case ef.IsStopping():
                return self._stopping()
            case ef.IsPaused():
                return await self._is_paused()
            case ef.Begin():
                self._begin(effect)
            case ef.Next():
                return await self._next()
            case ef.ComeUp(tasks=tasks):
                if all(self._turn.is_needed(task) for task in tasks):
                    await self._turn.come_up(tasks[0])
            case _:
                return await super()._do(effect)
        return None

    async def _is_paused(self) -> bool:
        """The execution continues with a new command. If it has resumed already, that command may have found its
        subject occupied."""
        if self._paused and not self._running:
            self._paused = (await self._read()).paused
        return self._paused

    def _begin(self, effect: ef.Begin) -> None:
        index = effect.command.index
        first, self._turn.first = self._turn.first, False  # the place in line that the loop waited for
        within = Within(effect.before, self._looked, lambda: self._is_patient(index), first)
        run = StepRun(self._outside, self._plan, effect.command, self._hold, within)
        self._running[asyncio.ensure_future(self._work(run))] = index, run

    def _is_patient(self, index: int) -> bool:
        return is_patient(index, {other: run.in_line for other, run in self._running.values()})

    async def _work(self, run: StepRun) -> None:
        try:
            await run.run()
        except Unreadable as error:
            await run.give_up(error)
        except (NoetlError, Fenced, NoRoom):
            raise
        except Exception as error:
            if self._hold.epoch[1] < MAX_CRASHES:
                raise
            await run.give_up(error)

    async def _next(self) -> list[tuple[int, ev.Event]]:
        """Waits for an iteration to end."""
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        ended: list[tuple[int, ev.Event]] = []
        for task in sorted(done, key=lambda task: self._running[task][0]):
            task.result()
            index, run = self._running.pop(task)
            assert run.ended is not None, "an iteration of a local loop has no end"
            ended.append((index, run.ended))
        return ended

    async def _leave(self) -> None:
        """Whatever still runs is cut short."""
        self._cut = [run for _, run in self._running.values()]
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = {}
