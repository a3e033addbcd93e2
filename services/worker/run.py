"""One step-run, or one iteration, on this worker: from its command to its terminal event.

A run that may have been held before is claimed first, and only then is its history read: every
record accepted before the claim is in it, none comes after. So the run goes on after the last
finished task. A task that waits ends the lease and not the run: the scheduler sends the run again.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import structlog
from msgspec.structs import replace

from services.worker import calls, credentials
from services.worker.history import Histories
from services.worker.journal import Journal
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.plan import Plan, Step, Task
from shared.engine import calling, parking, pipeline, promises
from shared.engine.calling import MAX_RUN_S, PARK_S
from shared.engine.held import History
from shared.engine.large import TooLarge, value_of
from shared.engine.pipeline import Progress
from shared.errors import TemplateError, Unavailable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed
from shared.events.record import Lease
from shared.runtime import results
from shared.tools.contract import Waits
from shared.tools.open import Tools

log = structlog.get_logger()
PURE_IN_A_ROW = 200  # tasks without effects, before what they noted is written and other runs get a turn
T = TypeVar("T")


class Fenced(Exception):
    """The run is over, or a later lease holds it. Unless that lease has this very command, nobody needs the
    command any more, and it would only keep a later one of the run out of the queue."""

    def __init__(self, *, needless: bool) -> None:
        super().__init__("over, or under another command" if needless else "held by a later lease")
        self.needless = needless


class Parked(Exception):
    """The task at hand waits; the scheduler knows."""


class StepRun:
    def __init__(
        self, bus: Bus, clock: Clock, tools: Tools, plan: Plan, command: Command, delivery: Delivery,
        worker: str, partitions: int, absences: Callable[[], int], mark: int, histories: Histories,
        before: History | None = None,
    ) -> None:
        """`mark` is what `absences` said before the command came: since then nobody else can have the
        run, unless it says more. `before` is what is known of an iteration of a local loop, whose worker holds it
        with the loop: it need not be claimed, and stays here while it pauses."""
        self._bus, self._clock, self._tools = bus, clock, tools
        self._plan, self._command, self._delivery = plan, command, delivery
        self._step: Step = plan.steps[command.step]
        self._histories, self._before = histories, before
        self.ended: ev.Event | None = None
        self._values: dict[str, Any] = {}
        lease = Lease(command.run_id, command.step, delivery.epoch, worker, command.index)
        self._lease = lease
        self._journal = Journal(
            bus, clock, command.execution_id, lease, partitions, self._step.max_payload_bytes, command.cause
        )
        self._due, self._late = 0.0, list[float]()
        self._elements: calling.Elements = {}
        self._absences, self._mark = absences, mark

    async def run(self) -> None:
        """Raises Fenced when the run is someone else's or over; any return means: acknowledge."""
        progress = await self._begin()
        try:
            while progress.state == "running":
                progress = await self._advance(progress)
            await self._stay()
            await self._end(progress)
        except Parked:
            return
        except TooLarge as error:
            await self._end(calling.cut_short(progress, error))

    async def give_up(self, error: Exception) -> None:
        """Ends the run as failed after an error of the worker itself."""
        failure = {"kind": "internal", "message": f"{type(error).__name__}: {error}", "retryable": False}
        progress = Progress(self._step.tasks[0].name, state="failed", error=failure)
        self._journal.forget()
        await self._end(progress)

    async def stopped(self) -> None:
        """Ends the run because it was told to stop."""
        await self._journal.settle()
        self._journal.forget()
        if self._journal.over:
            return
        self._journal.note(*calling.stopped(iteration=self._command.index >= 0))
        await self._flush()

    async def _end(self, progress: Progress) -> None:
        (ended,) = self._journal.note(pipeline.ending(progress, iteration=self._command.index >= 0))
        await self._flush()
        self.ended = ended

    # -- beginning ---------------------------------------------------------------------

    async def _begin(self) -> Progress:
        command, step = self._command, self._step
        start = await self._with_values(lambda: pipeline.begin(step, command, self._values))
        began: float | None = None
        absences = self._absences()
        if self._before is not None:
            start, began = self._before.progress(step, start), self._before.began
            self._journal.note(ev.StepStarted())
        elif not command.fresh or self._delivery.epoch[1] > 1 or absences != self._mark:
            self._mark = absences
            known = await self._claim()
            start, began = known.progress(step, start), known.began
        else:
            self._journal.note(ev.StepStarted())
        now = self._clock.now()
        self._late = calling.limits(step, command, began if began is not None else now)
        self._due = min([now + MAX_RUN_S, *self._late])
        return start

    async def _claim(self) -> History:
        await self._known()
        self._journal.note(ev.StepStarted())
        await self._journal.flush()
        known = await self._known()
        if known.epoch < self._lease.epoch:  # a replica that lags behind; one that has the claim has all before it
            raise Unavailable("the log does not show this worker's own claim yet")
        return known

    async def _known(self) -> History:
        known = await self._histories.read(self._command)
        if known.over or known.epoch > self._lease.epoch:
            raise Fenced(needless=known.over or known.epoch[0] > self._lease.epoch[0])
        return known

    async def _stay(self) -> None:
        """After an absence another worker may have the run: then its tools are not ours to call."""
        absences = self._absences()
        if absences != self._mark:
            await self._known()
            self._mark = absences

    async def _with_values(self, work: Callable[[], T]) -> T:
        return await results.brought(self._bus, self._values, work)

    # -- one task ----------------------------------------------------------------------

    async def _advance(self, progress: Progress) -> Progress:
        if progress.waiting:
            raise Parked
        task = pipeline.task_at(self._step, progress)
        if task.loop is not None:
            arrived = await self._with_values(
                lambda: calling.arrived(task, self._command, progress, self._values, self._elements))
            if isinstance(arrived, ev.TaskDone):
                return self._note(progress, ev.TaskStarted(task.name, progress.attempt), arrived)
            progress = arrived
        names = await self._names(task, progress)
        pure = self._tools.pure(task.kind)
        started = ev.TaskStarted(task.name, progress.attempt)
        waited = progress.answer is not None and progress.answer.outcome is not None
        if not pure and not waited:
            await self._stay()
            if progress.ran:
                await self._flush()
            self._journal.note(started)
        began = self._clock.now()
        outcome = await self._answered(task, progress, names, pure, self._due - began)
        ended = self._clock.now()
        key = calling.key_of(self._command, progress)
        events = calling.judged(self._step, progress, outcome, names, key, ended - began, over=ended >= self._due)
        last = events[-1]
        progress = self._note(progress, *([started, *events] if pure else events))
        pausing = isinstance(last, ev.TaskRetried) and self._parks(last.delay)  # one record says both
        if progress.state == "running" and not pausing and (not pure or progress.ran % PURE_IN_A_ROW == 0):
            await self._flush()
        if isinstance(last, ev.TaskRetried) and last.delay > 0:
            await self._pause(progress, last.delay)
        return progress

    async def _answered(
        self, task: Task, progress: Progress, names: dict[str, Any], pure: bool, left: float
    ) -> Outcome:
        """The call's outcome; or, when the task had to wait for it, what came of that."""
        answer = progress.answer
        if answer is not None and answer.outcome is not None:
            return await self._whole(answer.outcome)
        answered = await self._call(task, progress, names, pure, left)
        if isinstance(answered, Waits):
            now, key = self._clock.now(), calling.key_of(self._command, progress)
            event = parking.event(self._command, progress, answered, key, self._values, now, self._late)
            await self._park(progress, event)
        return answered

    async def _whole(self, outcome: Outcome) -> Outcome:
        ref = outcome.ref
        if ref is None:
            return outcome
        value = await self._with_values(lambda: value_of(ref, self._values))
        return replace(outcome, result=value, ref=None)

    async def _park(self, progress: Progress, event: ev.TaskWaiting) -> NoReturn:
        await self._stay()
        self._note(progress, event)
        await self._journal.park()
        raise Parked

    async def _names(self, task: Task, progress: Progress) -> dict[str, Any]:
        """What the task's templates see; nothing when it has none to evaluate."""
        if not calling.reads_names(task):
            return {}
        return await self._with_values(lambda: pipeline.names(self._command, progress, self._values))

    def _parks(self, delay: float) -> bool:
        """Whether the run leaves the worker for so long."""
        return delay > PARK_S and self._before is None

    async def _pause(self, progress: Progress, delay: float) -> None:
        until = min(self._clock.now() + delay, self._due)
        if not self._parks(delay):
            await self._flush()
            await self._clock.sleep(max(0.0, until - self._clock.now()))
            return
        await self._park(progress, parking.pause(progress, until))

    def _note(self, progress: Progress, *events: ev.Event) -> Progress:
        """Notes events for the log and folds them; a value too large becomes a failed run."""
        try:
            small = self._journal.note(*events)
        except TooLarge as error:
            events = (calling.too_large(progress, error),)
            small = self._journal.note(*events)
        return calling.folded(self._step, progress, events, small, self._values)

    async def _flush(self) -> None:
        await self._journal.flush()

    # -- the call ----------------------------------------------------------------------

    async def _call(
        self, task: Task, progress: Progress, names: dict[str, Any], pure: bool, left: float
    ) -> Outcome | Waits:
        if left <= 0:
            return calling.late()
        try:
            call = await calls.prepare(
                self._bus, self._tools, self._plan, task, names, calling.key_of(self._command, progress), left
            )
        except TemplateError as error:
            return failed("template", f"task {task.name}: {error}")
        except credentials.NoCredential as error:
            return failed("auth", str(error))
        if task.expects and (wrong := promises.expected(task, call.config)) is not None:
            return wrong
        work = self._tools.get(task.kind).run(call)
        if pure:
            return await work
        self._tools.under_way += 1
        try:
            async with asyncio.timeout(left):
                return await self._journal.during(work)
        except TimeoutError:
            return calling.late()
        finally:
            self._tools.under_way -= 1
