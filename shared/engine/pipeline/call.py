"""A task's call, as far as it is not the tool's: its key, its time, what it is rendered with, and what its end means.
Shared by the worker and the rehearsal."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.kinds import KeySpec
from shared.dsl.plan import Step, Task
from shared.dsl.template import evaluate
from shared.engine import pipeline
from shared.engine.elements import elements
from shared.engine.large import TooLarge, Values
from shared.engine.pipeline import Progress
from shared.engine.rendering import Rendered
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, failed
from shared.events.stamp import seconds

MAX_RUN_S = 24 * 3600.0  # in one worker's hands, without a timeout of its own
PARK_S = 5.0  # a longer pause before an attempt is spent without a worker

Elements = dict[tuple[str, int], list[Any] | Outcome]  # of a task's loop, by the task and when it was reached


class Asked(Struct, frozen=True):
    """A call before its credentials are looked up: `auth` and `credentials` name them."""

    config: dict[str, Any]
    spec: dict[str, Any]
    auth: Any
    credentials: dict[str, Any]


def key_of(command: Command, progress: Progress) -> str:
    """The same on every repetition of the same attempt."""
    index = f".{command.index}" if command.index >= 0 else ""
    return f"{command.execution_id}/{command.run_id}{index}/{progress.task}/{progress.ran + 1}"


def limits(step: Step, command: Command, began: float) -> list[float]:
    """When the run has to be over, by the playbook."""
    found = [seconds(command.deadline)] if command.deadline else []
    if step.timeout_s is not None and command.index < 0:
        found.append(began + step.timeout_s)
    return found


def reads_names(task: Task) -> bool:
    """Whether the task has anything to evaluate."""
    return bool(task.config or task.spec or task.rules is not None)


def arrived(
    task: Task, command: Command, progress: Progress, values: Values, known: Elements
) -> Progress | ev.TaskDone:
    """At the element of the task's loop that is to be worked on; `known` keeps the elements of the last loop."""
    progress = pipeline.entered(progress)
    assert progress.each is not None
    place = task.name, progress.each.began
    if place not in known:
        found = elements(task, pipeline.around(command, progress, values))
        known.clear()
        known[place] = found
    return pipeline.at_element(task, progress, known[place])


def rendered(task: Task, keys: Mapping[str, KeySpec], names: Mapping[str, Any]) -> Asked:
    """TemplateError when a key cannot be evaluated."""
    found = Rendered(task.config, keys, names)
    auth = found.config.pop("auth", None)
    return Asked(found.config, evaluate(task.spec, names), auth, found.credentials)


def late(**fields: Any) -> Outcome:
    return failed("timeout", "the step-run is over its time", **fields)


def judged(
    step: Step, progress: Progress, outcome: Outcome, names: dict[str, Any], key: str, took: float, *, over: bool
) -> list[ev.Event]:
    """What the end of a call means; `over`: it came after the run's time."""
    meta = {**outcome.meta, "attempt": progress.attempt, "duration_s": round(took, 6)}
    if over:
        return [ev.TaskDone(progress.task, progress.attempt, late(meta=meta), "fail")]
    return pipeline.decide(step, progress, replace(outcome, meta=meta), names, key)


def too_large(progress: Progress, error: TooLarge) -> ev.TaskDone:
    """What a task left cannot be stored at all."""
    return ev.TaskDone(progress.task, progress.attempt, failed("limit", str(error)), "fail")


def folded(
    step: Step, progress: Progress, events: tuple[ev.Event, ...], noted: list[ev.Event], values: dict[str, Any]
) -> Progress:
    """The progress after events, which stand in the log as `noted`. A list of elements' results is made of what
    the log has of them."""
    for event, small in zip(events, noted, strict=True):
        if isinstance(event, ev.TaskDone) and isinstance(small, ev.TaskDone) and small.outcome.ref and event.of:
            values[small.outcome.ref.checksum] = event.outcome.result
            event = small
        progress = pipeline.evolve(step, progress, event)
    return progress


def cut_short(progress: Progress, error: TooLarge) -> Progress:
    """The run ends wherever it is: its last record cannot be written."""
    limit = {"kind": "limit", "message": str(error), "retryable": False}
    return replace(progress, state="failed", error=limit, patches=())


def stopped(*, iteration: bool) -> list[ev.Event]:
    """What a worker says of a run that it was told to stop."""
    error = {"kind": "cancelled", "message": "stopped while it ran", "retryable": False}
    return [ev.StepStarted(), ev.IterationFailed(error) if iteration else ev.StepFailed(error)]
