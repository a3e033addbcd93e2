"""How a local loop advances under one lease: all of its iterations, in order or several at a time.

Theory of operation
-------------------
1. The loop is claimed as a whole, also by the first to have it: its execution may have been paused while its command
   was in the queue. From the claim on nothing that an earlier worker says of it counts: what is read then is final.
2. Each iteration is a run like any other (`machine.py`), with a lease of its own under the command's epoch. How they
   run beside each other is the interpreter's: `Begin` begins one, `Next` waits until one or more have ended.
3. What is begun in which order, and when nothing more is, `LocalLoop` decides, with the scheduler's own fold.
4. With a pause, or when the worker stops, what is in flight finishes and nothing more begins; nor does it when the loop
   is over its time. The scheduler says what becomes of it.
"""

from math import inf
from typing import Any

from shared.dsl.model.plan import Step
from shared.engine.leases import lost_leases
from shared.engine.pipeline import ownership
from shared.engine.pipeline.effects import (
    Begin,
    Claimed,
    ComeUp,
    Extend,
    Flush,
    Fresh,
    IsPaused,
    IsStopping,
    Next,
    Now,
    Read,
    Settle,
    Stay,
    Steps,
    brought,
)
from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.local_loop import LocalLoop, ahead
from shared.engine.pipeline.notes import Notes
from shared.errors import Signal
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Lease
from shared.events.stamp import seconds


class HandedBack(Signal):
    """This worker leaves the loop: another one continues it."""


class LocalMachine:
    """`due` is when it is over its time."""

    def __init__(
        self, step: Step, command: Command, lease: Lease, values: dict[str, Any], most: int | None = None
    ) -> None:
        """`most` bounds how many iterations run at a time, whatever the loop allows."""
        assert command.local is not None
        allowed = command.local.most
        self._most = allowed if most is None else min(allowed, most)
        self._step, self._command, self._values = step, command, values
        self._loop = LocalLoop(step, command)
        self._before: dict[int, History] = {}
        self._running = 0
        self.due = seconds(command.deadline) if command.deadline else inf
        self.notes = Notes(command.execution_id, lease, step.max_payload_bytes, whole=True)

    def run(self) -> Steps[None]:
        """Raises Fenced when the loop is someone else's, over or paused."""
        known = yield from self._claim()
        if (error := lost_leases.failure(known.lost, self._step.max_leases)) is not None:
            yield from self._halt(-1, error)
            return
        self._before = dict(known.begun)
        yield from brought(self._values, lambda: self._loop.take_over(known.begun, known.ended, self._values))
        yield from self._ask()
        while (yield from self._begin()):
            ended: list[tuple[int, ev.Event]] = yield Next()
            for index, event in ended:
                self._loop.end(index, event)
            self._running -= len(ended)
            yield from self._ask()
        if self._loop.is_halted:
            yield from self._halt(self._loop.index, self._loop.error)

    def give_up(self, error: dict[str, Any]) -> Steps[None]:
        """Ends the loop by a fault of whoever runs it."""
        yield from self._halt(-1, error)

    def stopped(self) -> Steps[None]:
        """Writes that nothing of it runs now, because it was told to stop."""
        yield from self._halt(-1, None)

    def _halt(self, index: int, error: dict[str, Any] | None) -> Steps[None]:
        yield Settle()
        self.notes.forget()
        if not self.notes.over:
            self.notes.note(ev.StepStarted(), ev.LoopHalted(self._loop.next, index, error))
            yield Flush()

    def _claim(self) -> Steps[LoopHistory]:
        fresh: bool = (yield Fresh()) is not None
        before = LoopHistory()
        outage: bool | None = False
        if not fresh:
            outage = yield Extend()
            before = yield from self._known()
        calls = ahead(self._step, self._command, before, self._most)
        if calls and None not in calls:  # nothing can be done without a call
            yield ComeUp(tuple(task for task in calls if task is not None))
        self.notes.note(ev.StepStarted(outage=bool(outage)))
        yield Flush()
        if not fresh:
            yield Claimed()
        known = yield from self._known()
        ownership.check_claim(self.notes.lease, known.epoch)
        return known

    def _known(self) -> Steps[LoopHistory]:
        known: LoopHistory = yield Read()
        check(self.notes.lease, known)
        return known

    def _begin(self) -> Steps[bool]:
        """Begins what may begin now; False if nothing runs and nothing is left to begin."""
        while self._running < self._most and not (yield from self._is_late()):
            if (yield IsStopping()) or (yield IsPaused()):
                break
            yield Stay()
            command = yield from brought(self._values, lambda: self._loop.begin(self._values))
            if command is None:
                return self._running > 0
            yield Begin(command, self._before.pop(command.index, History()))
            self._running += 1
        if not self._running and (yield IsStopping()):
            raise HandedBack
        return self._running > 0

    def _ask(self) -> Steps[None]:
        yield from brought(self._values, lambda: self._loop.ask(self._values))

    def _is_late(self) -> Steps[bool]:
        """Over its time: the scheduler says so."""
        now: float = yield Now()
        return now >= self.due


def check(lease: Lease, known: LoopHistory) -> None:
    """Raises Fenced if the loop is not to continue under the lease; one that is paused continues under a later one."""
    ownership.check(lease, known.epoch, over=known.over or known.paused, held=known.held)
