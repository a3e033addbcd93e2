"""The order of tasks within a run, over all the leases that held it: no finished task runs again."""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from shared.answers.history.history import Entry, Held, History, Key, PlanOf, Violation, evidence
from shared.answers.verify.reports import PIPELINE_END
from shared.dsl.model.plan import Step
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.decide import Progress
from shared.engine.values.ctx_patch import lasting, size_of
from shared.engine.values.stored_values import MAX_RESULT_BYTES, shrink_result
from shared.events import model as ev
from shared.events.failure import CANCELLED, INTERNAL, LIMIT, UNREADABLE, WORKER_LOST
from shared.events.outcome import Result, mark
from shared.events.run_index import is_frame

# The worker ends the run wherever it is: what a task left is too large for the log and is not recorded, it was
# told to stop, it has a fault of its own, a stored value cannot be read, or too many leases were lost (`lost_leases.py`
# counts them).
CUT_SHORT = (LIMIT, CANCELLED, INTERNAL, UNREADABLE, WORKER_LOST)


def check_pipelines(history: History, plan_of: PlanOf) -> Iterable[Violation]:
    for key, held in history.held.items():
        if not held.kept or is_frame(key.index):
            continue
        if key.run_id not in history.scheduled:
            yield Violation("pipeline", f"{key} reports, but was never scheduled", held.kept[0][0])
            continue
        at, event = history.scheduled[key.run_id]
        if held.kept[0][0] < at:
            yield Violation("pipeline", f"{key} reports before it was scheduled", held.kept[0][0])
        step = plan_of(event.digest).steps.get(event.step) if event.digest else None
        if step is None or not step.tasks:
            yield Violation("pipeline", f"{key} reports, but its step {event.step} has no tasks", held.kept[0][0])
            continue
        yield from _check_run(history.execution_id, step, key, held)


def _check_run(execution_id: str, step: Step, key: Key, held: Held) -> Iterator[Violation]:
    """Folds the order of tasks alone: what the tasks wrote into iter and ctx is compared, not applied."""
    progress, patches = Progress(step.tasks[0].name), list[ev.Patch]()
    epoch = (0, 0)

    def matches(result: Result, left: Result) -> bool:
        return result == left or (left.shape == "loop" and result == _as_noted(execution_id, step, left))

    for seq, record in held.kept:
        assert record.lease is not None
        if record.lease.epoch != epoch and not isinstance(record.events[0], ev.StepStarted):
            yield Violation("pipeline", f"{key}: lease {record.lease.epoch} works without step.started", seq)
        epoch = record.lease.epoch
        for event in record.events:
            message = _fits(progress, patches, event, matches)
            if message:
                yield Violation("pipeline", f"{key}: {message}", seq)
                return
            if isinstance(event, ev.TaskDone | ev.TaskRetried):
                if event.outcome.call:
                    call = pipeline_call.key_at(execution_id, key.run_id, key.index, progress)
                    if event.outcome.call != mark(call):
                        yield _answers_another(key, call, (seq, record), event)
                if event.set_ctx:
                    patches.append(event.set_ctx)
                try:
                    progress = pipeline.evolve(step, progress, replace(event, set_iter={}, grow=(), set_ctx={}))
                except ValueError:
                    yield Violation("pipeline", f"{key}: there is no task {event.task}", seq)
                    return


def _answers_another(key: Key, call: str, entry: Entry, event: ev.TaskDone | ev.TaskRetried) -> Violation:
    task, told = f"task {event.task}, attempt {event.attempt}", event.outcome.call
    shown = evidence(entry, f"the outcome of {task} names call {told}; that of {call} is {mark(call)}")
    return Violation("call", f"{key}: the outcome of {task} is the answer to another call", entry[0], (shown,))


def _element(progress: Progress) -> int:
    return progress.each.at if progress.each is not None else 0


def _as_noted(execution_id: str, step: Step, result: Result) -> Result:
    """The list that a task's loop leaves is put together from the log, and may be too large for a record."""
    return shrink_result(execution_id, result, min(step.max_payload_bytes, MAX_RESULT_BYTES), {})


def _endings(patches: tuple[ev.Patch, ...]) -> tuple[tuple[ev.Patch, ...], ...]:
    """What a run may end with; before, it was always all that its tasks had written."""
    return patches, lasting(patches, size_of(patches))


def _fits(
    progress: Progress, patches: list[ev.Patch], event: ev.Event, matches: Callable[[Result, Result], bool]
) -> str:
    """Why the event cannot come now; empty when it can."""
    match event:
        case ev.TaskStarted(task=task, attempt=attempt) | ev.TaskDone(task=task, attempt=attempt) \
            | ev.TaskRetried(task=task, attempt=attempt) | ev.PolicyUnmatched(task=task, attempt=attempt) \
            | ev.TaskWaiting(task=task, attempt=attempt):
            if progress.state != "running":
                return f"task {task} after the pipeline is {progress.state}"
            if (task, attempt) != (progress.task, progress.attempt):
                return f"task {task} attempt {attempt}, at hand is {progress.task} attempt {progress.attempt}"
            if isinstance(event, ev.TaskDone) and event.element >= 0 and event.element != _element(progress):
                return f"element {event.element} of task {task}, at hand is {_element(progress)}"
        case ev.StepDone(result=result) | ev.IterationDone(result=result):
            if progress.state != "done":
                return f"done while its pipeline is {progress.state} at {progress.task}"
            if not matches(result, progress.prev):
                return "its result is not that of its last task"
        case ev.StepFailed(error={"kind": kind}, ctx=()) | ev.IterationFailed(error={"kind": kind}, ctx=()) \
            if kind in CUT_SHORT:
            return ""
        case ev.StepFailed(error=error) | ev.IterationFailed(error=error):
            if progress.state != "failed" or error != progress.error:
                return f"failed while its pipeline is {progress.state} at {progress.task}"
    if isinstance(event, PIPELINE_END) and event.ctx not in _endings(tuple(patches)):
        return "its ctx patches are not those of its tasks"
    return ""


