"""A plain run or an iteration in a rehearsal: a callable answers instead of a tool, and a worker may die over it."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.answers.rehearsal.lease import FOREVER, Death, Died, LeaseHold, Stage, Times, WorkerFault
from shared.answers.rehearsal.types import Awaits, Breaks, Decided, Ended, Need, Never, Took
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.decide import Progress
from shared.engine.pipeline.history import History
from shared.engine.pipeline.machine import RunMachine
from shared.engine.values.growth import shown
from shared.engine.values.stored_values import value_of
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.events.record import Epoch
from shared.events.waits import Waits


class Hold(LeaseHold):
    """`loop` is the lease on the local loop of an iteration, and `before` what is known of the iteration."""

    def __init__(
        self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool, before: History | None = None,
        loop: LeaseHold | None = None,
    ) -> None:
        super().__init__(stage, command, epoch, fresh=fresh)
        self.machine: RunMachine = RunMachine(
            self.step, command, self.lease, stage.kinds.__getitem__, self.values, before=before, timed=stage.timed)
        self._loop = loop
        self._death: Death = ""
        self._awaited: tuple[Need | None, Ended | None] = None, None

    @property
    def ended(self) -> ev.Event | None:
        """Its last event, once it is written."""
        return self.machine.ended

    # -- effects -------------------------------------------------------------------------

    def _do(self, effect: ef.Effect) -> Times[Any]:
        if self._death:
            yield from self._die()
        match effect:
            case ef.Call():
                return (yield from self._call(effect))
            case ef.Ended(progress=progress, outcome=outcome, names=names):
                return self._over(progress, outcome, names)
            case ef.Park(event=event):
                self._flush()
                self._parked(event)
            case ef.TakeTurn():
                return 0.0
            case ef.ComeUp() | ef.LeaveTurn():
                return None  # every tool has a turn for everyone
            case _:
                return (yield from super()._do(effect))

    def _over(self, progress: Progress, outcome: Outcome, names: Mapping[str, Any]) -> tuple[float, Outcome]:
        """A rehearsal knows only the names of credentials, so there is nothing to take out of an outcome. A worker that
        dies during its call does so before its outcome is noted, or after."""
        stage = self._stage
        if stage.watch is not None and stage.now < self.machine.due:
            stage.watch(self.step, progress, outcome, names)
        holder = self._loop or self
        if holder.lost + 1 < self.step.max_leases:  # one more would end the run, by no fault of the playbook
            self._death = stage.death(pipeline_call.key_of(self.command, progress))
        if self._death == "before":
            raise Died
        return stage.now, outcome

    def _die(self) -> Times[None]:
        if self._death == "zombie" and self._loop is None:
            self._stage.given_up(self)
            yield self._stage.now
        self._flush()
        raise Died

    def _progressed(self) -> None:
        (self._loop or self).lost = 0

    def _parked(self, event: ev.TaskWaiting) -> None:
        need, ended = self._awaited
        if need is not None and event.child is not None and ended is None and not event.child.detached:
            self._stage.needs.append(need)
        self._stage.parks(self, event, ended)

    # -- the call ------------------------------------------------------------------------

    def _call(self, effect: ef.Call) -> Times[tuple[float, Outcome] | Waits | ef.Judged | None]:
        answered = yield from self._answered(effect)
        return self._over(effect.progress, answered, effect.names) if isinstance(answered, Outcome) else answered

    def _answered(self, effect: ef.Call) -> Times[Outcome | Waits | ef.Judged | None]:
        if self._stage.is_over_events(len(self.machine.notes.unwritten)):  # before a run without end does
            self._flush()
            yield self._stage.now
        need = self._need(effect)
        self._stage.calls.append(need)
        answered = self._stage.answer(need)
        match answered:
            case None:
                self._stage.needs.append(need)
                self._flush()
                while True:
                    yield FOREVER
            case Waits() | Awaits():
                waits = answered if isinstance(answered, Awaits) else Awaits(answered)
                if waits.begins is not None:
                    yield from self._until(waits.begins)
                self._awaited = need, waits.ended
                return waits.waits
            case Never():
                yield from self._until(self._stage.now + effect.limit)
                return None
            case Decided(events=events, at=at):
                yield from self._until(at or 0.0)
                return ef.Judged(events)
            case Breaks(error=error, at=at):
                yield from self._until(at or 0.0)
                raise WorkerFault(error)
            case Took(seconds=took, at=None) if took > effect.limit:
                yield from self._until(self._stage.now + effect.limit)
                return None
            case Took(outcome=outcome, seconds=took, at=at, told=told):
                yield from self._until(self._stage.now + took if at is None else at)
                return self._judged(effect, outcome) if told else self._whole(outcome)
        return self._whole(answered)

    def _judged(self, effect: ef.Call, outcome: Outcome) -> ef.Judged:
        names = dict(effect.names)
        return ef.Judged(tuple(pipeline.decide(self.step, effect.progress, self._whole(outcome), names, effect.key)))

    def _need(self, effect: ef.Call) -> Need:
        """The call as a tool would get it."""
        command, task, progress, asked = self.command, effect.task, effect.progress, effect.prepared.asked
        element = progress.each.at if progress.each is not None else -1
        names: Mapping[str, Any] = effect.names or pipeline.names(command, progress, self.values)
        if effect.prepared.secrets:
            names = {**names, "keychain": effect.prepared.secrets}
        return Need(
            execution_id=command.execution_id, path=self._stage.plan.path, step=self.step.name, run_id=command.run_id,
            index=command.index, iter=shown(progress.iter, self.values), task=task.name, kind=task.kind,
            attempt=progress.attempt, element=element, number=progress.ran + 1, config=asked.config, spec=asked.spec,
            auth=asked.auth, credentials=asked.credentials, args=command.args, key=effect.key, at=self._stage.now,
            line=self.step.line, names=names,
        )

    def _whole(self, outcome: Outcome) -> Outcome:
        if outcome.ref is None:
            return outcome
        return replace(outcome, result=value_of(outcome.ref, self.values), ref=None)
