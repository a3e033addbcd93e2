"""The claim of a frame of rows, for a loop with a cursor.

The query runs in a transaction; its rows are written into the log, and only then is it committed. A worker that dies
before the record claims nothing; one that dies between the record and the commit leaves the rows unclaimed in the
table, and the loop has them: a row may come again, and none is lost. A record that came too late, after another
worker has claimed the frame, is not committed.
"""

from collections.abc import Callable
from typing import Any

import structlog

from services.worker import calls, credentials
from services.worker.history import Histories
from services.worker.journal import Journal
from services.worker.run import Fenced
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.plan import Plan, Step
from shared.engine import frames
from shared.engine.calling import MAX_RUN_S
from shared.errors import NoetlError, TemplateError, Unavailable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed
from shared.events.record import Lease
from shared.events.stamp import seconds
from shared.runtime import results
from shared.tools.contract import Claiming
from shared.tools.open import Tools

log = structlog.get_logger()
LAG_S = (0.05, 0.2, 1.0)
PAUSES_S = (0.5, 2.0)  # before a claim that failed for the moment is tried again


class FrameRun:
    def __init__(
        self, bus: Bus, clock: Clock, tools: Tools, plan: Plan, command: Command, delivery: Delivery, worker: str,
        partitions: int, absences: Callable[[], int], mark: int, histories: Histories,
    ) -> None:
        self._bus, self._clock, self._tools, self._plan = bus, clock, tools, plan
        self._command, self._delivery, self._histories = command, delivery, histories
        self._absences, self._mark = absences, mark
        self._step: Step = plan.steps[command.step]
        self._lease = Lease(command.run_id, command.step, delivery.epoch, worker, command.index)
        self._journal = Journal(
            bus, clock, command.execution_id, self._lease, partitions, self._step.max_payload_bytes, command.cause
        )
        self._values: dict[str, Any] = {}
        self._holds = False
        self._wrong: list[Exception | Outcome] = []

    async def run(self) -> None:
        """Raises Fenced when the frame is someone else's or claimed; any return means: acknowledge."""
        await self._hold()
        outcome = await self._claim()
        for pause in PAUSES_S:
            if self._journal.over or outcome.error is None or not outcome.error.get("retryable"):
                break
            await self._clock.sleep(pause)
            outcome = await self._claim()
        if outcome.error is not None and self._journal.over:
            log.warning("frame.not_committed", run_id=self._command.run_id, error=outcome.error)
        elif outcome.error is not None:
            await self._fail(outcome.error)

    async def give_up(self, error: Exception) -> None:
        """Ends the claim after an error of the worker itself."""
        await self._fail({"kind": "internal", "message": f"{type(error).__name__}: {error}", "retryable": False})

    async def stopped(self) -> None:
        """Ends the claim because the loop was told to stop."""
        await self._journal.settle()
        await self._fail({"kind": "cancelled", "message": "stopped while it ran", "retryable": False})

    async def _fail(self, error: dict[str, Any]) -> None:
        self._journal.forget()
        if not self._journal.over:
            self._journal.note(*(() if self._holds else (ev.StepStarted(),)), ev.FrameFailed(error))
            await self._journal.flush()

    # -- holding it ----------------------------------------------------------------------

    async def _hold(self) -> None:
        fresh = self._command.fresh and self._delivery.epoch[1] == 1 and self._absences() == self._mark
        if not fresh:
            await self._known()
        self._journal.note(ev.StepStarted())
        await self._journal.flush()
        self._holds = True
        if not fresh:
            await self._known()

    async def _known(self) -> None:
        known = await self._histories.read(self._command)
        if known.over or known.epoch > self._lease.epoch:
            raise Fenced(needless=known.over or known.epoch[0] > self._lease.epoch[0])

    # -- the query -----------------------------------------------------------------------

    async def _claim(self) -> Outcome:
        cursor = self._step.loop.cursor if self._step.loop is not None else None
        assert cursor is not None
        deadline = self._command.deadline
        left = min(MAX_RUN_S, seconds(deadline) - self._clock.now()) if deadline else MAX_RUN_S
        if left <= 0:
            return failed("timeout", "the step is over its time")
        try:
            names = await results.brought(self._bus, self._values, lambda: frames.names(self._command, self._values))
            call = await calls.prepare(
                self._bus, self._tools, self._plan, cursor.claim, names, frames.id_of(self._command), left
            )
        except TemplateError as error:
            return failed("template", f"loop.cursor: {error}")
        except credentials.NoCredential as error:
            return failed("auth", str(error))
        tool = self._tools.get(cursor.claim.kind)
        if not isinstance(tool, Claiming):
            refused = await tool.run(call)
            assert isinstance(refused, Outcome)
            return refused
        self._wrong.clear()
        outcome = await tool.claim(call, self._keep)
        await self._journal.settle()  # a claim that took too long may have been cut short while it wrote
        self._journal.forget()
        for wrong in self._wrong:
            if isinstance(wrong, Outcome):
                return wrong
            raise wrong
        return outcome

    async def _keep(self, outcome: Outcome) -> bool:
        """Writes the rows into the log; whether they are to be committed."""
        try:
            wrong = frames.misfit(outcome.result, self._command.count)
            if wrong is None:
                rows = outcome.result["rows"]
                self._journal.note(ev.FrameClaimed(len(rows), rows))
                await self._journal.flush()
                return await self._counts()
            self._wrong.append(wrong)
        except NoetlError as error:
            self._wrong.append(error)
        return False

    async def _counts(self) -> bool:
        """Whether the record is the answer for this frame, or came after another worker took it."""
        for pause in LAG_S:
            known = await self._histories.read(self._command)
            if known.over and known.epoch == self._lease.epoch:
                return True
            if known.over or known.epoch > self._lease.epoch:
                self._wrong.append(Fenced(needless=known.over or known.epoch[0] > self._lease.epoch[0]))
                return False
            await self._clock.sleep(pause)  # a replica that lags behind
        raise Unavailable("the log does not show this worker's own record yet")
