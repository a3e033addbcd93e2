"""The claim of a frame of rows in a rehearsal: whoever answers gives the rows, and there is nothing to commit."""

from collections.abc import Mapping
from typing import Any

from shared.answers.rehearsal.lease import FOREVER, LeaseHold, Stage, Times, WorkerFault
from shared.answers.rehearsal.types import Breaks, Decided, Need, Never, Took
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.frame_machine import FrameMachine
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.events.record import Epoch
from shared.events.run_index import frame_of


class FrameHold(LeaseHold):
    def __init__(self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool) -> None:
        super().__init__(stage, command, epoch, fresh=fresh)
        self.machine: FrameMachine = FrameMachine(
            self.step, command, self.lease, stage.kinds.__getitem__, self.values, timed=stage.timed)

    def _do(self, effect: ef.Effect) -> Times[Any]:
        if not isinstance(effect, ef.ClaimRows):
            return (yield from super()._do(effect))
        outcome = yield from self._answered(self._need(effect))
        if isinstance(outcome, Outcome) and outcome.status == "ok":
            yield from self._play(effect.keep(outcome))
        return outcome

    def _answered(self, need: Need) -> Times[Outcome | ef.Judged]:
        self._stage.calls.append(need)
        answered = self._stage.answer(need)
        match answered:
            case None:
                self._stage.needs.append(need)
                while True:
                    yield FOREVER
            case Never():
                yield from self._until(FOREVER)
                return pipeline_call.late()
            case Breaks(error=error, at=at):
                yield from self._until(at or 0.0)
                raise WorkerFault(error)
            case Decided(events=events, at=at):
                yield from self._until(at or 0.0)
                return ef.Judged(events)
            case Took(outcome=outcome, seconds=took, at=at):
                yield from self._until(self._stage.now + took if at is None else at)
                return outcome
            case Outcome():
                return answered
        raise AssertionError(f"the claim of rows is answered with {type(answered).__name__}")

    def _need(self, effect: ef.ClaimRows) -> Need:
        command, claim, asked = self.command, effect.task, effect.prepared.asked
        names: Mapping[str, Any] = effect.names
        if effect.prepared.secrets:
            names = {**names, "keychain": effect.prepared.secrets}
        return Need(
            execution_id=command.execution_id, path=self._stage.plan.path, step=self.step.name, run_id=command.run_id,
            index=-1, iter={}, task=claim.name, kind=claim.kind, attempt=effect.attempt, element=-1,
            number=effect.attempt, config=asked.config, spec=asked.spec, auth=asked.auth,
            credentials=asked.credentials, args=command.args, key=effect.key, at=self._stage.now, line=self.step.line,
            names=names, frame=frame_of(command.index),
        )
