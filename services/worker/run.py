"""One step-run, or one iteration, on this worker: from its command to its terminal event.

A run that may have been held before is claimed first, and only then is its history read: every
record accepted before the claim is in it, none comes after. So the run goes on after the last
finished task.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from msgspec.structs import replace

from services.worker import credentials, history
from services.worker.journal import Journal
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.names import names_used
from shared.dsl.plan import Plan, Step, Task
from shared.dsl.template import evaluate, render_sql
from shared.engine import pipeline
from shared.engine.large import Missing, TooLarge
from shared.engine.pipeline import Progress
from shared.errors import TemplateError, Unavailable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed
from shared.events.record import Lease
from shared.events.stamp import seconds
from shared.runtime import results
from shared.tools.contract import Call
from shared.tools.open import Tools

log = structlog.get_logger()
MAX_RUN_S = 24 * 3600.0  # a run without a timeout of its own
PURE_IN_A_ROW = 200  # tasks without effects, before what they noted is written and other runs get a turn
T = TypeVar("T")


class Fenced(Exception):
    """The run is over, or a later lease holds it: then its command is that lease's to acknowledge."""

    def __init__(self, *, over: bool) -> None:
        super().__init__("over" if over else "held by a later lease")
        self.over = over


class StepRun:
    def __init__(
        self, bus: Bus, clock: Clock, tools: Tools, plan: Plan, command: Command, delivery: Delivery,
        worker: str, partitions: int, absences: Callable[[], int], mark: int,
    ) -> None:
        """`mark` is what `absences` said before the command came: since then nobody else can have the
        run, unless it says more."""
        self._bus, self._clock, self._tools = bus, clock, tools
        self._plan, self._command, self._delivery = plan, command, delivery
        self._step: Step = plan.steps[command.step]
        self._partitions = partitions
        self._values: dict[str, Any] = {}
        lease = Lease(command.run_id, command.step, delivery.epoch, worker, command.index)
        self._lease = lease
        self._journal = Journal(bus, clock, command.execution_id, lease, partitions, self._step.max_payload_bytes)
        self._due = 0.0
        self._absences, self._mark = absences, mark

    async def run(self) -> None:
        """Raises Fenced when the run is someone else's or over; any return means: acknowledge."""
        progress = await self._begin()
        try:
            while progress.state == "running":
                progress = await self._advance(progress)
            await self._stay()
            await self._end(progress)
        except TooLarge as error:
            limit = {"kind": "limit", "message": str(error), "retryable": False}
            await self._end(replace(progress, state="failed", error=limit, patches=()))

    async def give_up(self, error: Exception) -> None:
        """Ends the run as failed after an error of the worker itself."""
        failure = {"kind": "internal", "message": f"{type(error).__name__}: {error}", "retryable": False}
        progress = Progress(self._step.tasks[0].name, state="failed", error=failure)
        self._journal.forget()
        self._journal.note(pipeline.ending(progress, iteration=self._command.index >= 0))
        await self._flush()

    async def _end(self, progress: Progress) -> None:
        self._note(progress, pipeline.ending(progress, iteration=self._command.index >= 0))
        await self._flush()

    # -- beginning ---------------------------------------------------------------------

    async def _begin(self) -> Progress:
        command, step = self._command, self._step
        start = await self._with_values(lambda: pipeline.begin(step, command, self._values))
        began: float | None = None
        absences = self._absences()
        if not command.fresh or self._delivery.epoch[1] > 1 or absences != self._mark:
            self._mark = absences
            known = await self._claim()
            start, began = known.progress(step, start), known.began
        else:
            self._journal.note(ev.StepStarted())
        self._due = self._limit(began if began is not None else self._clock.now())
        return start

    async def _claim(self) -> history.History:
        await self._known()
        self._journal.note(ev.StepStarted())
        await self._journal.flush()
        known = await self._known()
        if known.epoch < self._lease.epoch:  # a replica that lags behind; one that has the claim has all before it
            raise Unavailable("the log does not show this worker's own claim yet")
        return known

    async def _known(self) -> history.History:
        known = await history.read(self._bus, self._command, self._partitions)
        if known.over or known.epoch > self._lease.epoch:
            raise Fenced(over=known.over)
        return known

    async def _stay(self) -> None:
        """After an absence another worker may have the run: then its tools are not ours to call."""
        absences = self._absences()
        if absences != self._mark:
            await self._known()
            self._mark = absences

    def _limit(self, began: float) -> float:
        limits = [began + MAX_RUN_S]
        if self._command.deadline:
            limits.append(seconds(self._command.deadline))
        if self._step.timeout_s is not None and self._command.index < 0:
            limits.append(began + self._step.timeout_s)
        return min(limits)

    async def _with_values(self, work: Callable[[], T]) -> T:
        """Runs the work, fetching stored values it misses."""
        while True:
            try:
                return work()
            except Missing as missing:
                self._values[missing.ref.checksum] = await results.load(self._bus, missing.ref)

    # -- one task ----------------------------------------------------------------------

    async def _advance(self, progress: Progress) -> Progress:
        task = pipeline.task_at(self._step, progress)
        names = await self._names(task, progress)
        pure = self._tools.pure(task.kind)
        started = ev.TaskStarted(task.name, progress.attempt)
        if not pure:
            await self._stay()
            if progress.ran:
                await self._flush()
            self._journal.note(started)
        began = self._clock.now()
        outcome = await self._call(task, progress, names, pure, self._due - began)
        ended = self._clock.now()
        meta = {**outcome.meta, "attempt": progress.attempt, "duration_s": round(ended - began, 6)}
        outcome = replace(outcome, meta=meta)
        if ended >= self._due:
            outcome = failed("timeout", "the step-run is over its time", meta=meta)
            events: list[ev.Event] = [ev.TaskDone(task.name, progress.attempt, outcome, "fail")]
        else:
            events = pipeline.decide(self._step, progress, outcome, names, self._key(progress))
        last = events[-1]
        progress = self._note(progress, *([started, *events] if pure else events))
        if progress.state == "running" and (not pure or progress.ran % PURE_IN_A_ROW == 0):
            await self._flush()
        if isinstance(last, ev.TaskRetried) and last.delay > 0:
            await self._wait(last.delay)
        return progress

    async def _names(self, task: Task, progress: Progress) -> dict[str, Any]:
        """What the task's templates see; nothing when it has none to evaluate."""
        if not task.config and not task.spec and task.rules is None:
            return {}
        return await self._with_values(lambda: pipeline.names(self._command, progress, self._values))

    async def _wait(self, delay: float) -> None:
        await self._flush()
        await self._clock.sleep(max(0.0, min(delay, self._due - self._clock.now())))

    def _note(self, progress: Progress, *events: ev.Event) -> Progress:
        """Notes events for the log and folds them; a value too large becomes a failed run."""
        try:
            self._journal.note(*events)
        except TooLarge as error:
            events = (ev.TaskDone(progress.task, progress.attempt, failed("limit", str(error)), "fail"),)
            self._journal.note(*events)
        for event in events:
            progress = pipeline.evolve(self._step, progress, event)
        return progress

    async def _flush(self) -> None:
        await self._journal.flush()

    def _key(self, progress: Progress) -> str:
        index = f".{self._command.index}" if self._command.index >= 0 else ""
        run = f"{self._command.execution_id}/{self._command.run_id}{index}"
        return f"{run}/{progress.task}/{progress.ran + 1}"

    # -- the call ----------------------------------------------------------------------

    async def _call(
        self, task: Task, progress: Progress, names: dict[str, Any], pure: bool, left: float
    ) -> Outcome:
        if left <= 0:
            return failed("timeout", "the step-run is over its time")
        try:
            call = await self._render(task, progress, names, left)
        except TemplateError as error:
            return failed("template", f"task {task.name}: {error}")
        except credentials.NoCredential as error:
            return failed("auth", str(error))
        work = self._tools.get(task.kind).run(call)
        if pure:
            return await work
        try:
            async with asyncio.timeout(left):
                return await self._journal.during(work)
        except TimeoutError:
            return failed("timeout", "the step-run is over its time")

    async def _render(self, task: Task, progress: Progress, names: dict[str, Any], left: float) -> Call:
        keys = self._tools.spec(task.kind).keys
        secrets: dict[str, Any] = {}
        if task.config and "keychain" in names_used(task.config).names:
            secrets = await self._keychain()
            names = {**names, "keychain": secrets}
        config: dict[str, Any] = {}
        for key, value in task.config.items():
            spec = keys.get(key)
            if spec is not None and not spec.template:
                config[key] = value
            elif spec is not None and spec.sql and isinstance(value, str):
                config[key] = render_sql(value, names)
            else:
                config[key] = evaluate(value, names)
        auth = await credentials.resolve(self._bus, config.pop("auth", None)) if "auth" in config else None
        return Call(config, evaluate(task.spec, names), auth, self._key(progress), left, secrets)

    async def _keychain(self) -> dict[str, Any]:
        """The declared credentials that are stored; using one that is not is the template's error."""
        found: dict[str, Any] = {}
        for entry in self._plan.keychain:
            with suppress(credentials.NoCredential):
                found[entry["name"]] = await credentials.find(self._bus, entry["name"])
        return found
