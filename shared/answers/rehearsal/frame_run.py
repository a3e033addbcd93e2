"""The claim of a frame of rows in a rehearsal: whoever answers gives the rows, and there is nothing to commit."""

from typing import Any

from shared.dsl.names import names_used
from shared.dsl.plan import Task
from shared.engine import calling, frames, held
from shared.engine.rehearsal_lease import FOREVER, LeaseHold, Steps, tick
from shared.engine.rehearsal_types import Breaks, Decided, Need, Never, Took
from shared.engine.secrets import keychain
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.index import frame_of
from shared.events.outcome import Outcome, failed
from shared.events.stamp import seconds

PAUSES_S = (0.5, 2.0, 0.0)  # before a claim that failed for the moment is tried again; after the last it fails


class FrameHold(LeaseHold):
    def _run(self) -> Steps[None]:
        self._note(ev.StepStarted())
        if not self._fresh:
            known = held.accept(self._stage.log.about(self.key), *self.key)
            if known.over or known.epoch > self.lease.epoch:
                return
        self._flush()
        if self._stage.timed and self.command.deadline:
            self._due = seconds(self.command.deadline)
        for attempt, pause in enumerate(PAUSES_S, 1):
            event = yield from self._claim(attempt)
            if isinstance(event, ev.FrameClaimed) or not event.error.get("retryable") or not pause:
                self._end(event)
                return
            yield tick(self._stage.now + pause)

    def _end(self, event: ev.Event) -> None:
        self._note(event)
        self._flush()
        self.over = True

    def _stopped(self) -> None:
        self._end(ev.FrameFailed({"kind": "cancelled", "message": "stopped while it ran", "retryable": False}))

    def _claim(self, attempt: int) -> Steps[ev.FrameClaimed | ev.FrameFailed]:
        need = self._need(attempt)
        outcome = need if isinstance(need, Outcome) else (yield from self._answered(need))
        if not isinstance(outcome, Outcome):
            return outcome
        if outcome.status == "ok":
            outcome = frames.misfit(outcome.result, self.command.count) or outcome
        if outcome.error is not None:
            return ev.FrameFailed(outcome.error)
        rows = outcome.result["rows"]
        return ev.FrameClaimed(len(rows), rows)

    def _answered(self, need: Need) -> Steps[Outcome | ev.FrameClaimed | ev.FrameFailed]:
        self._stage.calls.append(need)
        answered = self._stage.answer(need)
        match answered:
            case None:
                self._stage.needs.append(need)
                while True:
                    yield FOREVER
            case Never():
                yield from self._until(FOREVER)
                return calling.late()
            case Breaks(error=error, at=at):
                yield from self._until(at or 0.0)
                return ev.FrameFailed(error)
            case Decided(events=(event,), at=at) if isinstance(event, ev.FrameClaimed | ev.FrameFailed):
                yield from self._until(at or 0.0)
                return event
            case Took(outcome=outcome, seconds=took, at=at):
                yield from self._until(self._stage.now + took if at is None else at)
                return outcome
            case Outcome():
                return answered
        raise AssertionError(f"the claim of rows is answered with {type(answered).__name__}")

    def _need(self, attempt: int) -> Need | Outcome:
        command, claim = self.command, self._claim_task()
        names: dict[str, Any] = frames.names(command, self.values)
        if "keychain" in names_used(claim.config).names:
            names = {**names, "keychain": keychain(self._stage.plan)}
        try:
            asked = calling.rendered(claim, self._stage.kinds[claim.kind].keys, names)
        except TemplateError as error:
            return failed("template", f"loop.cursor: {error}")
        return Need(
            command.execution_id, self._stage.plan.path, self.step.name, command.run_id, -1, {}, claim.name, claim.kind,
            attempt, -1, attempt, asked.config, asked.spec, asked.auth, asked.credentials, command.args,
            frames.id_of(command), self._stage.now, self.step.line, names, frame_of(command.index),
        )

    def _claim_task(self) -> Task:
        assert self.step.loop is not None
        assert self.step.loop.cursor is not None
        return self.step.loop.cursor.claim
