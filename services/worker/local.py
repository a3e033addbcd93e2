"""A local loop on this worker: all of its iterations under one command, in order or several at a time.

The loop is claimed as a whole: from then on nothing that an earlier worker says of it counts, so what is read of it
after that is final. Each iteration is a run like any other, with a lease of its own under the command's epoch. What
is begun in which order is decided in `engine/local.py`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from services.worker import local_history
from services.worker.journal import Journal
from services.worker.run import Fenced, StepRun
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.plan import Step
from shared.engine.held import History
from shared.engine.local import LocalLoop
from shared.engine.local_held import LoopHistory
from shared.errors import NoetlError, Unavailable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Lease
from shared.events.stamp import seconds
from shared.runtime import results

MAX_CRASHES = 3  # deliveries of a command that end in an error of the worker itself
Make = Callable[[Command, int, History], StepRun]


class HandedBack(Exception):
    """The worker stops: another one goes on with the loop."""


class LocalRun:
    """`slots` bound how many iterations run at a time, whatever the loop allows. `make` makes the run of one."""

    def __init__(
        self, bus: Bus, clock: Clock, step: Step, command: Command, delivery: Delivery, worker: str, partitions: int,
        absences: Callable[[], int], mark: int, make: Make, stopping: Callable[[], bool], slots: int,
    ) -> None:
        assert command.local is not None
        self._bus, self._clock, self._command, self._delivery = bus, clock, command, delivery
        self._partitions, self._absences, self._mark = partitions, absences, mark
        self._make, self._stopping, self._most = make, stopping, min(command.local.most, slots)
        self._lease = Lease(command.run_id, command.step, delivery.epoch, worker)
        self._journal = Journal(
            bus, clock, command.execution_id, self._lease, partitions, step.max_payload_bytes, command.cause, loop=True
        )
        self._loop = LocalLoop(step, command)
        self._values: dict[str, Any] = {}
        self._before: dict[int, History] = {}
        self._running: dict[asyncio.Task[None], tuple[int, StepRun]] = {}
        self._cut: list[StepRun] = []
        self._paused = False

    async def run(self) -> None:
        """Raises Fenced when the loop is someone else's or over; any return means: acknowledge."""
        known = await self._claim()
        self._before = known.begun
        await self._brought(lambda: self._loop.take_over(known.begun, known.ended, self._values))
        try:
            await self._ask()
            while await self._begin():
                await self._next()
                await self._ask()
        finally:
            await self._leave()
        if self._loop.is_halted:
            await self._halt(self._loop.index, self._loop.error)

    def pause(self, at: int) -> None:
        """What is in flight finishes, and nothing more begins. A word from before this command is an old one."""
        self._paused = self._paused or at > self._command.since

    async def give_up(self, error: Exception) -> None:
        """Ends the loop after an error of the worker itself."""
        await self._halt(-1, {"kind": "internal", "message": f"{type(error).__name__}: {error}", "retryable": False})

    async def stopped(self) -> None:
        """Says that nothing of it runs any more, because it was told to stop."""
        for run in self._cut:
            with suppress(NoetlError):
                await run.stopped()
        await self._halt(-1, None)

    async def _halt(self, index: int, error: dict[str, Any] | None) -> None:
        await self._journal.settle()
        self._journal.forget()
        if not self._journal.over:
            self._journal.note(ev.StepStarted(), ev.LoopHalted(self._loop.next, index, error))
            await self._journal.flush()

    # -- the claim ---------------------------------------------------------------------

    async def _claim(self) -> LoopHistory:
        """Also a fresh one is read: the execution may have been paused while its command was in the queue."""
        absences = self._absences()
        if not self._command.fresh or self._delivery.epoch[1] > 1 or absences != self._mark:
            await self._known()
        self._mark = absences
        self._journal.note(ev.StepStarted())
        await self._journal.flush()
        found = await self._known()
        if found.epoch < self._lease.epoch:
            raise Unavailable("the log does not show this worker's own claim yet")
        return found

    async def _known(self) -> LoopHistory:
        known = await self._read()
        if known.over or known.paused or known.epoch > self._lease.epoch:
            raise Fenced(needless=known.over or known.paused or known.epoch[0] > self._lease.epoch[0])
        return known

    async def _read(self) -> LoopHistory:
        return await local_history.read(self._bus, self._partitions, self._command)

    async def _stay(self) -> None:
        """After an absence another worker may have the loop, or it is over."""
        absences = self._absences()
        if absences != self._mark:
            await self._known()
            self._mark = absences

    # -- iterations --------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Begins what may begin now; False when nothing runs any more and nothing is left to begin."""
        while len(self._running) < self._most and not self._is_late():
            if self._stopping() or await self._is_paused():
                break
            await self._stay()
            command = await self._brought(lambda: self._loop.begin(self._values))
            if command is None:
                return bool(self._running)
            run = self._make(command, self._mark, self._before.pop(command.index, History()))
            task = asyncio.ensure_future(self._work(run))
            self._running[task] = command.index, run
        if self._stopping() and not self._running:
            raise HandedBack
        return bool(self._running)

    async def _is_paused(self) -> bool:
        """The execution goes on with a new command. If it does already, there may have been no place for that one."""
        if self._paused and not self._running:
            self._paused = (await self._read()).paused
        return self._paused

    async def _work(self, run: StepRun) -> None:
        try:
            await run.run()
        except (NoetlError, Fenced):
            raise
        except Exception as error:
            if self._delivery.epoch[1] < MAX_CRASHES:
                raise
            await run.give_up(error)

    async def _next(self) -> None:
        """Waits for an iteration to end."""
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=lambda task: self._running[task][0]):
            task.result()
            index, run = self._running.pop(task)
            assert run.ended is not None, "an iteration of a local loop has no end"
            self._loop.end(index, run.ended)

    async def _ask(self) -> None:
        await self._brought(lambda: self._loop.ask(self._values))

    async def _leave(self) -> None:
        """Whatever still runs is cut short."""
        self._cut = [run for _, run in self._running.values()]
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = {}

    def _is_late(self) -> bool:
        """Over its time: the scheduler says so."""
        deadline = self._command.deadline
        return bool(deadline) and self._clock.now() >= seconds(deadline)

    async def _brought(self, work: Callable[[], Any]) -> Any:
        return await results.brought(self._bus, self._values, work)
