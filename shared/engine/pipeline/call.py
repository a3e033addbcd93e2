"""The engine's side of a task's call: its key, its time, what it is rendered with, and what its end means.
Shared by the worker and the rehearsal."""

from collections.abc import Mapping
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.model.plan import Step, Task
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.templates.budget import one_decision
from shared.dsl.templates.evaluate import evaluate
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.decide import Progress
from shared.engine.pipeline.rendering import Rendered
from shared.engine.pipeline.task_loop import elements
from shared.engine.values import time_limits
from shared.engine.values.stored_values import Unstorable, Values, stored_ref
from shared.errors import Unreadable
from shared.events import model as ev
from shared.events.command import Command
from shared.events.failure import CANCELLED, INTERNAL, LIMIT, TIMEOUT, UNREADABLE, Failure
from shared.events.outcome import Outcome, failed
from shared.events.run_index import is_iteration, iteration_part
from shared.events.stamp import seconds, stamp

MAX_RUN_S = 24 * 3600.0  # in one worker's hands, without a timeout of its own
MAX_TASK_S = 3600.0  # for one attempt of a task, where neither the task nor its step nor its execution has a timeout
NOTABLE_S = 0.001  # a shorter wait for a turn is not reported
PARK_S = 5.0  # a longer pause before an attempt is spent without a worker
STOPPED = Failure(CANCELLED, "stopped while it ran", retryable=False).error()

Elements = dict[tuple[str, int], list[Any] | Outcome]  # of a task's loop, by the task and when it was reached


class Asked(Struct, frozen=True):
    """A call before its credentials are looked up: `auth` and `credentials` name them."""

    config: dict[str, Any]
    spec: dict[str, Any]
    auth: Any
    credentials: dict[str, Any]


def key_of(command: Command, progress: Progress) -> str:
    """The same on every repetition of the same attempt."""
    return key_at(command.execution_id, command.run_id, command.index, progress)


def key_at(execution_id: str, run_id: str, index: int, progress: Progress) -> str:
    return f"{execution_id}/{run_id}{iteration_part(index)}/{progress.task}/{progress.ran + 1}"


def limits(step: Step, command: Command, began: float) -> list[float]:
    """When the run has to be over, by the playbook."""
    found = [seconds(command.deadline)] if command.deadline else []
    if step.timeout_s is not None and not is_iteration(command.index):
        found.append(began + step.timeout_s)
    return found


def time_for(task: Task, left: float, *, bounded: bool) -> float:
    """Seconds for one attempt. `left` of the run's time, which is `bounded` if the playbook says how long it may take;
    the task's own limit, if it has one, is enforced by the tool."""
    return left if bounded or own_time(task) is not None else min(left, MAX_TASK_S)


def own_time(task: Task) -> Any:
    """What the task itself says: seconds, or a template for them."""
    if not task.spec:
        return None
    own = task.spec.get("timeout")
    return own.get("total") if isinstance(own, Mapping) else own


def unanswered(limit: float) -> Outcome:
    """No answer within the time that every task has."""
    return failed(TIMEOUT, f"no result within {limit:g} s, the time of a task without a timeout (spec.timeout)",
                  retryable=True)


def next_call(step: Step, progress: Progress) -> Task | None:
    """The task whose tool is called next, if one is."""
    if progress.state != "running" or progress.waiting or progress.answer is not None:
        return None
    return pipeline.task_at(step, progress)


def only_reads(task: Task, spec: ToolSpec) -> bool:
    """Whether a call of the task may be made again, also with another answer, as long as no effect came after it."""
    return spec.reads is not None and spec.reads(task.config, task.spec)


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


@one_decision
def rendered(task: Task, keys: Mapping[str, KeySpec], names: Mapping[str, Any]) -> Asked:
    """TemplateError when a key cannot be evaluated."""
    found = Rendered(task.config, keys, names)
    auth = found.config.pop("auth", None)
    return Asked(found.config, evaluate(task.spec, names), auth, found.credentials)


def late(said: str = time_limits.OVER, **fields: Any) -> Outcome:
    return failed(TIMEOUT, said, **fields)


def overtime(step: Step, command: Command, due: float, began: float) -> str:
    """What is said of a run that is over its time at `due`, by the key of the playbook that says so."""
    if step.timeout_s is not None and not is_iteration(command.index) and due == began + step.timeout_s:
        return time_limits.over(time_limits.TIMEOUT, step)
    if command.deadline and due == seconds(command.deadline):
        return time_limits.over(command.due_by, step)
    if due == inf:  # played again, by whoever knows that it was over
        return time_limits.over(command.due_by or (time_limits.TIMEOUT if step.timeout_s is not None else ""), step)
    return f"no worker holds a run for more than {MAX_RUN_S:g} s: give its tasks a timeout, or make it several steps"


def with_blocks(outcome: Outcome, spec: ToolSpec) -> Outcome:
    """A call that failed before its tool was asked has the blocks of its kind too, so that a rule may read
    `outcome.pg.code` of any failure."""
    if outcome.error is None or not spec.blocks:
        return outcome
    missing = {name: dict(block) for name, block in spec.blocks.items() if getattr(outcome, name) is None}
    return replace(outcome, **missing) if missing else outcome


class Times(Struct, frozen=True):
    """From when to when a call took, and how long the run waited in line for a turn before it."""

    began: float
    ended: float
    queued: float = 0.0


def judged(
    step: Step, progress: Progress, outcome: Outcome, names: dict[str, Any], key: str, times: Times, *, over: str
) -> list[ev.Event]:
    """What the end of a call means; `over`: it came after the run's time, in these words."""
    meta = {**outcome.meta, "attempt": progress.attempt, "duration_s": round(times.ended - times.began, 6),
            "started_at": stamp(times.began), "ended_at": stamp(times.ended)}
    if times.queued >= NOTABLE_S:
        meta["queued_s"] = round(times.queued, 6)
    if over:
        left = outcome.result if outcome.error is not None else None  # what it printed, or was answered, until then
        return [ev.TaskDone(progress.task, progress.attempt, late(over, meta=meta, result=left), "fail")]
    return pipeline.decide(step, progress, replace(outcome, meta=meta), names, key)


def too_large(progress: Progress, error: Unstorable) -> ev.TaskDone:
    """What a task left cannot be stored at all."""
    return ev.TaskDone(progress.task, progress.attempt, failed(LIMIT, str(error)), "fail")


def folded(
    step: Step, progress: Progress, events: tuple[ev.Event, ...], noted: list[ev.Event], values: dict[str, Any]
) -> Progress:
    """The progress after events, which are in the log as `noted`. A list of elements' results is made of what
    the log has of them."""
    for event, small in zip(events, noted, strict=True):
        if type(event) is ev.TaskDone and type(small) is ev.TaskDone:
            if event.of and small.outcome.ref:
                values[small.outcome.ref.checksum] = event.outcome.result
                event = replace(event, outcome=small.outcome)
            if event.collected:
                event = _referring(event, small, values)
        progress = pipeline.evolve(step, progress, event)
    return progress


def _referring(event: ev.TaskDone, small: ev.TaskDone, values: dict[str, Any]) -> ev.TaskDone:
    """The event with what it collected into ctx as the log has it: the end of the run says it again."""
    for key in event.collected:
        if (ref := stored_ref(small.set_ctx.get(key))) is not None and stored_ref(event.set_ctx[key]) is None:
            values[ref.checksum] = event.set_ctx[key]
    return replace(event, set_ctx=small.set_ctx)


def cut_short(progress: Progress, error: Unstorable) -> Progress:
    """The run ends wherever it is: its last record cannot be written."""
    limit = Failure(LIMIT, str(error), retryable=False).error()
    return replace(progress, state="failed", error=limit, patches=())


def stopped(*, iteration: bool, printed: ev.Printed | None = None) -> list[ev.Event]:
    """What a worker reports of a run that it was told to stop; `printed` by the call that was under way."""
    ended = ev.IterationFailed(STOPPED, printed=printed) if iteration else ev.StepFailed(STOPPED, printed=printed)
    return [ev.StepStarted(), ended]


def internal(error: Exception) -> dict[str, Any]:
    """The error of a run that failed by a fault of its worker, or for want of a stored value."""
    if isinstance(error, Unreadable):
        return Failure(UNREADABLE, str(error), retryable=False).error()
    return Failure(INTERNAL, f"{type(error).__name__}: {error}", retryable=False).error()
