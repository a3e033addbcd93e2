"""A worker's lease on a run in a rehearsal: what `services/worker/run.py` does over the bus, as a generator that yields
the time at which it goes on. Instead of a tool a callable answers."""

from typing import Any, NoReturn

from msgspec.structs import replace

from shared.dsl.names import names_used
from shared.dsl.plan import Task
from shared.engine import calling, held, parking, pipeline, promises
from shared.engine.held import History
from shared.engine.large import TooLarge, value_of
from shared.engine.pipeline import Progress
from shared.engine.rehearsal_lease import FOREVER, Broken, Death, Died, LeaseHold, Parked, Stage, Steps, tick
from shared.engine.rehearsal_types import Awaits, Breaks, Decided, Ended, Need, Never, Took
from shared.engine.secrets import keychain
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed
from shared.events.record import Epoch
from shared.events.waits import Waits


class Hold(LeaseHold):
    """A plain run or an iteration. `before` is what is known of an iteration of a local loop, whose worker holds it
    with the loop; `ended` its last word."""

    def __init__(
        self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool, before: History | None = None
    ) -> None:
        super().__init__(stage, command, epoch, fresh=fresh)
        self.ended: ev.Event | None = None
        self._before = before
        self._late: list[float] = []
        self._elements: calling.Elements = {}

    def _stopped(self) -> None:
        self._note(*calling.stopped(iteration=self.command.index >= 0))
        self._flush()

    def _run(self) -> Steps[None]:
        progress = self._begin()
        if progress is None:
            return
        try:
            while progress.state == "running":
                if progress.waiting:
                    return
                progress = yield from self._advance(progress)
            self._end(progress)
        except TooLarge as error:
            self._noted = []
            self._end(calling.cut_short(progress, error))
        except Broken as broken:
            self._noted = []
            self._end(replace(progress, state="failed", error=broken.error, patches=()))

    def _begin(self) -> Progress | None:
        """None: the run is over, or a later lease has it."""
        start: Progress | None = pipeline.begin(self.step, self.command, self.values)
        began = self._stage.now
        self._note(ev.StepStarted())
        if self._before is not None:
            assert start is not None
            start, began = self._before.progress(self.step, start), self._before.began or began
        elif not self._fresh:
            known = held.accept(self._stage.log.about(self.key), *self.key)
            if known.over or known.epoch > self.lease.epoch:
                return None
            self._flush()
            assert start is not None
            start, began = known.progress(self.step, start), known.began or began
        if self._stage.timed:
            self._late = calling.limits(self.step, self.command, began)
            self._due = min([self._stage.now + calling.MAX_RUN_S, *self._late])
        return start

    def _end(self, progress: Progress) -> None:
        (self.ended,) = self._note(pipeline.ending(progress, iteration=self.command.index >= 0))
        self._flush()
        self.over = True

    # -- one task ----------------------------------------------------------------------

    def _advance(self, progress: Progress) -> Steps[Progress]:
        task = pipeline.task_at(self.step, progress)
        if task.loop is not None:
            arrived = calling.arrived(task, self.command, progress, self.values, self._elements)
            if isinstance(arrived, ev.TaskDone):
                return self._fold(progress, ev.TaskStarted(task.name, progress.attempt), arrived)
            progress = arrived
        names = pipeline.names(self.command, progress, self.values) if calling.reads_names(task) else {}
        pure = self._stage.kinds[task.kind].pure
        started = ev.TaskStarted(task.name, progress.attempt)
        waited = progress.answer is not None and progress.answer.outcome is not None
        if not pure and not waited:
            if progress.ran:
                self._flush()
            self._note(started)
        events = yield from self._outcome(task, progress, names)
        death = self._stage.death(calling.key_of(self.command, progress))
        if death == "before":
            raise Died
        progress = self._fold(progress, *([started, *events] if pure else events))
        if death:
            yield from self._die(death)
        last = events[-1]
        pausing = isinstance(last, ev.TaskRetried) and self._parks(last.delay)
        if progress.state == "running" and not pausing and not pure:
            self._flush()
        if isinstance(last, ev.TaskRetried) and last.delay > 0:
            yield from self._pause(progress, last.delay)
        return progress

    def _die(self, death: Death) -> Steps[None]:
        if death == "zombie" and self._before is None:
            self._stage.given_up(self)
            yield self._stage.now
        self._flush()
        raise Died

    def _parks(self, delay: float) -> bool:
        """Whether the run leaves the worker for so long."""
        return delay > calling.PARK_S and self._before is None

    def _pause(self, progress: Progress, delay: float) -> Steps[None]:
        until = min(self._stage.now + delay, self._due)
        if self._parks(delay):
            self._park(parking.pause(progress, until), None)
        self._flush()
        yield tick(until)

    # -- the call ----------------------------------------------------------------------

    def _outcome(self, task: Task, progress: Progress, names: dict[str, Any]) -> Steps[list[ev.Event]]:
        """The events that follow from the end of the call."""
        began = self._stage.now
        answer = progress.answer
        found: Outcome | Took | Decided
        if answer is not None and answer.outcome is not None:
            found = self._whole(answer.outcome)
        elif self._due <= began:
            found = calling.late()
        else:
            found = yield from self._call(task, progress, names)
        if isinstance(found, Decided):
            return list(found.events)
        now, key = self._stage.now, calling.key_of(self.command, progress)
        if isinstance(found, Took):
            return pipeline.decide(self.step, progress, self._whole(found.outcome), names, key)
        if self._stage.watch is not None and now < self._due:
            self._stage.watch(self.step, progress, found, names)
        return calling.judged(self.step, progress, found, names, key, now - began, over=now >= self._due)

    def _call(self, task: Task, progress: Progress, names: dict[str, Any]) -> Steps[Outcome | Took | Decided]:
        need = self._need(task, progress, names)
        if isinstance(need, Outcome):
            return need
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
                now, key = self._stage.now, calling.key_of(self.command, progress)
                event = parking.event(self.command, progress, waits.waits, key, self.values, now, self._late)
                if event.child is not None and waits.ended is None and not event.child.detached:
                    self._stage.needs.append(need)
                self._park(event, waits.ended)
            case Never():
                yield from self._until(FOREVER)
                return calling.late()
            case Decided(at=at):
                yield from self._until(at or 0.0)
                return answered
            case Breaks(error=error, at=at):
                yield from self._until(at or 0.0)
                raise Broken(error)
            case Took(outcome=outcome, seconds=took, at=at):
                yield from self._until(self._stage.now + took if at is None else at)
                return answered if answered.told else self._whole(outcome)
        return self._whole(answered)

    def _need(self, task: Task, progress: Progress, names: dict[str, Any]) -> Need | Outcome:
        """The call as a tool would get it; or the outcome of one that is not made."""
        spec = self._stage.kinds[task.kind]
        if task.config and "keychain" in names_used(task.config).names:
            names = {**names, "keychain": keychain(self._stage.plan)}
        try:
            asked = calling.rendered(task, spec.keys, names)
        except TemplateError as error:
            return failed("template", f"task {task.name}: {error}")
        if task.expects and (wrong := promises.expected(task, asked.config)) is not None:
            return wrong
        command, each = self.command, progress.each
        return Need(
            command.execution_id, self._stage.plan.path, self.step.name, command.run_id, command.index,
            progress.iter, task.name, task.kind, progress.attempt, each.at if each is not None else -1,
            progress.ran + 1, asked.config, asked.spec, asked.auth, asked.credentials, command.args,
            calling.key_of(command, progress), self._stage.now, self.step.line,
            names or pipeline.names(command, progress, self.values),
        )

    def _whole(self, outcome: Outcome) -> Outcome:
        if outcome.ref is None:
            return outcome
        return replace(outcome, result=value_of(outcome.ref, self.values), ref=None)

    # -- what it writes ----------------------------------------------------------------

    def _park(self, event: ev.TaskWaiting, ended: Ended | None) -> NoReturn:
        self._note(event)
        self._flush("waiting")
        self.over = True
        self._stage.parks(self, event, ended)
        raise Parked

    def _fold(self, progress: Progress, *events: ev.Event) -> Progress:
        try:
            small = self._note(*events)
        except TooLarge as error:
            events = (calling.too_large(progress, error),)
            small = self._note(*events)
        return calling.folded(self.step, progress, events, small, self.values)
