"""One step-run, or one iteration, on this worker: its tools are called here, in their turn and within their time."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from services.worker import calls
from services.worker.hold import Hold
from services.worker.interpreter import Interpreter, Outside, lease_of
from services.worker.tool_turn import Turn
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.effects import Effect
from shared.engine.pipeline.history import History
from shared.engine.pipeline.machine import RunMachine
from shared.engine.values.printed import last_lines, last_words, with_last_words
from shared.events import model as ev
from shared.events.beat import Saying
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.tools.base.contract import Printing, Tool, Waits
from shared.tools.base.turns import in_a_hurry

LASTS_S = 1.0
LAST_BYTES = 16_384  # of what a call under way prints: more than is shown, so that no secret in it is cut in half


class Within(Struct, frozen=True):
    """An iteration of a local loop, whose worker holds it with the loop. `before` is what is known of it, `looked` the
    number of absences at the loop's last look; `patient` and `first` say how it waits in line (`tool_turn.py`)."""

    before: History
    looked: int
    patient: Callable[[], bool]
    first: bool


class StepRun(Interpreter):
    def __init__(
        self, outside: Outside, plan: Plan, command: Command, hold: Hold, within: Within | None = None
    ) -> None:
        machine = RunMachine(
            plan.steps[command.step], command, lease_of(outside, command, hold), outside.tools.spec, {},
            before=within.before if within is not None else None)
        super().__init__(outside, plan, command, hold, machine, hold.mark if within is None else within.looked)
        self._tools, self._run, self._within = outside.tools, machine, within
        self._calling: tuple[ef.Call, Printing, float] | None = None  # under way since, or cut short
        self._turn: Turn | None = None  # once a tool is to be called that makes a limited number of calls at a time

    @property
    def ended(self) -> ev.Event | None:
        """Its last event, once it is written."""
        return self._run.ended

    async def run(self) -> None:
        """Raises Fenced if another worker has the run or it is over, NoRoom if its next tool has no turn for it; any
        return means: acknowledge."""
        try:
            await self.drive(self._run.run())
        finally:
            self._leave_turn()

    async def stopped(self) -> None:
        await self.drive(self._run.stopped(await self._last_words()))

    async def release(self, why: str) -> None:
        """An iteration that has written nothing has no lease of its own."""
        if self._within is None or self._journal.has_spoken:
            await self._journal.release(self._said(why), await self._last_words())

    async def _last_words(self) -> ev.Printed | None:
        """What the call that was cut short had printed."""
        if self._calling is None or (stopped := self._calling[1].stopped) is None:
            return None
        progress = self._calling[0].progress
        return last_words(progress.task, progress.attempt, await self._hidden(stopped))

    def saying(self) -> Iterable[Saying]:
        """A call that has lasted for a moment; a short one is in the log before anyone asks."""
        if self._calling is None or (so_far := self._calling[1].so_far) is None:
            return
        effect, _, since = self._calling
        if self._clock.now() - since < LASTS_S:
            return
        with suppress(OSError, ValueError):  # its process may be gone
            found = {stream: self._lines(text) for stream, text in so_far(LAST_BYTES).items() if text.strip()}
            if found:
                at, command = effect.progress, self._command
                yield Saying(command.execution_id, command.run_id, command.index, at.task, at.attempt, found)

    def _lines(self, text: str) -> tuple[str, ...]:
        return last_lines(self._secrets.part(text) if self._secrets else text, cut=len(text) >= LAST_BYTES)

    async def _read(self) -> History:
        return await self._outside.histories.read(self._command, in_local=self._within is not None)

    @property
    def in_line(self) -> float | None:
        """Since when it waits in line for a turn."""
        return self._turn.since if self._turn is not None else None

    def _own_turn(self) -> Turn:
        if self._turn is None:
            within = self._within
            patient, first = (in_a_hurry, False) if within is None else (within.patient, within.first)
            self._turn = Turn(self._tools, self._clock, self._command, self._lease.epoch[1], patient, first=first)
        return self._turn

    def _leave_turn(self) -> None:
        if self._turn is not None:
            self._turn.leave()

    # -- effects -------------------------------------------------------------------------

    async def _do(self, effect: Effect) -> Any:
        if type(effect) is ef.Ended:
            return await self._over(effect.outcome)
        if type(effect) is ef.TakeTurn:
            if self._tools.turns(effect.task.kind) is None:
                return 0.0 if self._turn is None else self._turn.waited
            await self._own_turn().take(effect.task, begun=effect.begun)
            return self._own_turn().waited
        match effect:
            case ef.Park():
                await self._journal.flush()
            case ef.ComeUp(tasks=tasks):
                await self._own_turn().come_up(tasks[0])
            case ef.LeaveTurn():
                self._leave_turn()
            case _:
                return await super()._do(effect)
        return None

    async def _call(self, effect: ef.Call) -> tuple[float, Outcome] | Waits | None:
        tool = self._tools.get(effect.task.kind)
        if not effect.pure:
            outcome = await self._within_time(effect, tool)
        else:
            outcome = await tool.run(calls.call_of(effect))
            if self._secrets is None and isinstance(outcome, Outcome):  # it has no turn, and says nothing meanwhile
                return self._clock.now(), outcome
        return await self._over(outcome) if isinstance(outcome, Outcome) else outcome

    async def _over(self, outcome: Outcome) -> tuple[float, Outcome]:
        self._leave_turn()
        if self._calling is not None:
            outcome, self._calling = with_last_words(outcome, self._calling[1].stopped), None
        return self._clock.now(), await self._hidden(outcome) if self._secrets else outcome

    async def _within_time(self, effect: ef.Call, tool: Tool) -> Outcome | Waits | None:
        printing, since = Printing(), self._clock.now()
        call, self._calling = calls.call_of(effect, printing), (effect, printing, since)
        outcome: Outcome | Waits | None = None
        self._tools.under_way += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(effect.limit):
                    outcome = await self._journal.during(tool.run(call))
        finally:
            self._tools.under_way -= 1
        self._outside.counts.called(effect.task.kind, self._clock.now() - since, outcome)
        return outcome
