"""The order of tasks within a run, over all the leases that held it: no finished task runs again."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from shared.dsl.plan import Step
from shared.engine import pipeline
from shared.engine.pipeline import Progress
from shared.engine.verify_history import TERMINAL, Held, History, Key, PlanOf, Violation
from shared.events import model as ev


def check_pipelines(history: History, plan_of: PlanOf) -> Iterable[Violation]:
    for key, held in history.held.items():
        if not held.kept:
            continue
        if key.run_id not in history.scheduled:
            yield Violation("pipeline", f"{key} reports, but was never scheduled", held.kept[0][0])
            continue
        at, event = history.scheduled[key.run_id]
        if held.kept[0][0] < at:
            yield Violation("pipeline", f"{key} reports before it was scheduled", held.kept[0][0])
        yield from _check_run(plan_of(event.digest).steps[event.step], key, held)


def _check_run(step: Step, key: Key, held: Held) -> Iterator[Violation]:
    """Folds the order of tasks alone: what the tasks wrote into iter and ctx is compared, not applied."""
    progress, patches = Progress(step.tasks[0].name), list[ev.Patch]()
    epoch = (0, 0)
    for seq, record in held.kept:
        assert record.lease is not None
        if record.lease.epoch != epoch and not isinstance(record.events[0], ev.StepStarted):
            yield Violation("pipeline", f"{key}: lease {record.lease.epoch} works without step.started", seq)
        epoch = record.lease.epoch
        for event in record.events:
            message = _fits(progress, patches, event)
            if message:
                yield Violation("pipeline", f"{key}: {message}", seq)
                return
            if isinstance(event, ev.TaskDone | ev.TaskRetried):
                if event.set_ctx:
                    patches.append(event.set_ctx)
                try:
                    progress = pipeline.evolve(step, progress, replace(event, set_iter={}, set_ctx={}))
                except ValueError:
                    yield Violation("pipeline", f"{key}: there is no task {event.task}", seq)
                    return


def _fits(progress: Progress, patches: list[ev.Patch], event: ev.Event) -> str:
    """Why the event cannot come now; empty when it can."""
    match event:
        case ev.TaskStarted(task=task, attempt=attempt) | ev.TaskDone(task=task, attempt=attempt) \
            | ev.TaskRetried(task=task, attempt=attempt) | ev.PolicyUnmatched(task=task, attempt=attempt):
            if progress.state != "running":
                return f"task {task} after the pipeline is {progress.state}"
            if (task, attempt) != (progress.task, progress.attempt):
                return f"task {task} attempt {attempt}, at hand is {progress.task} attempt {progress.attempt}"
        case ev.StepDone(result=result) | ev.IterationDone(result=result):
            if progress.state != "done":
                return f"done while its pipeline is {progress.state} at {progress.task}"
            if result != progress.prev:
                return "its result is not that of its last task"
        case ev.StepFailed(error={"kind": "limit"}, ctx=()) | ev.IterationFailed(error={"kind": "limit"}, ctx=()):
            return ""  # what the task left was too large for the log: it stands nowhere
        case ev.StepFailed(error=error) | ev.IterationFailed(error=error):
            if progress.state != "failed" or error != progress.error:
                return f"failed while its pipeline is {progress.state} at {progress.task}"
    if isinstance(event, TERMINAL) and list(event.ctx) != patches:
        return "its ctx patches are not those of its tasks"
    return ""


