"""The claim of a frame of rows on this worker: the query runs in a transaction of its tool."""

from typing import Any

import structlog

from services.worker import calls
from services.worker.hold import Hold
from services.worker.interpreter import Interpreter, Outside, lease_of
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.effects import Effect
from shared.engine.pipeline.frame_machine import FrameMachine
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.tools.base.contract import Claiming

log = structlog.get_logger()


class FrameRun(Interpreter):
    def __init__(self, outside: Outside, plan: Plan, command: Command, hold: Hold) -> None:
        lease = lease_of(outside, command, hold)
        self._frame = FrameMachine(plan.steps[command.step], command, lease, outside.tools.spec, {})
        super().__init__(outside, plan, command, hold, self._frame, hold.mark)

    async def run(self) -> None:
        failed = await self.drive(self._frame.run())
        if failed is not None:
            log.warning("frame.not_committed", run_id=self._command.run_id, error=failed.error)

    async def _do(self, effect: Effect) -> Any:
        if isinstance(effect, ef.ClaimRows):
            return await self._claim(effect)
        return await super()._do(effect)

    async def _claim(self, effect: ef.ClaimRows) -> Outcome:
        tool, call = self._outside.tools.get(effect.task.kind), calls.call_of(effect)
        since = self._clock.now()
        if isinstance(tool, Claiming):
            outcome = await tool.claim(call, lambda outcome: self._keep(effect, outcome))
        else:
            refused = await tool.run(call)
            assert isinstance(refused, Outcome)
            outcome = refused
        self._outside.counts.called(effect.task.kind, self._clock.now() - since, outcome)
        return await self._hidden(outcome)

    async def _keep(self, effect: ef.ClaimRows, outcome: Outcome) -> bool:
        return await self.drive(effect.keep(await self._hidden(outcome)))
