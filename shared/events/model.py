"""One frozen Struct per event type.

Router and scheduler events are decisions; worker events are facts about a lease (whose run,
iteration and epoch stand once on the record, see `record.py`). `entity` and `state` feed the
envelope of FX §9.1 and FS §12.1. A new field needs a default; a removed one stays reserved.
"""

from typing import Any, ClassVar, Literal

from msgspec import Struct

from shared.events.outcome import Outcome, Ref, Result

Patch = dict[str, Any]


class Scope(Struct, frozen=True, omit_defaults=True, gc=False):
    """The part of the execution's state a step's templates name, as of its scheduling."""

    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    steps: dict[str, Result] = {}


class Base(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event_type"):
    entity: ClassVar[str] = "step"
    state: ClassVar[str] = "in_progress"


# --- the execution (router) ---------------------------------------------------------------


class ExecutionRequested(Base, frozen=True, tag="playbook.execution.requested"):
    path: str
    version: str = ""
    payload: dict[str, Any] = {}
    request_id: str = ""
    entity = "playbook"


class RequestEvaluated(Base, frozen=True, tag="playbook.request.evaluated"):
    digest: str = ""
    error: dict[str, Any] | None = None
    entity = "playbook"


class PlaybookStarted(Base, frozen=True, tag="playbook.started"):
    workload: dict[str, Any] = {}
    entity = "playbook"


class WorkflowStarted(Base, frozen=True, tag="workflow.started"):
    entity = "workflow"


class WorkflowFinished(Base, frozen=True, tag="workflow.finished"):
    status: Literal["completed", "failed"] = "completed"
    entity = "workflow"
    state = "success"


class PlaybookProcessed(Base, frozen=True, tag="playbook.processed"):
    status: Literal["completed", "failed"] = "completed"
    result: Result | None = None
    error: dict[str, Any] | None = None
    entity = "playbook"
    state = "success"


# --- tokens and routing (router) ----------------------------------------------------------


class TokenCreated(Base, frozen=True, tag="token.created"):
    token_id: str
    step: str
    args: dict[str, Any] = {}
    parent_run_id: str = ""
    entity = "workflow"


class TokenRejected(Base, frozen=True, tag="token.rejected"):
    """Admission denied; `rule` is the index of the rule that decided, -1 when none matched."""

    token_id: str
    step: str
    rule: int = -1
    entity = "workflow"
    state = "skipped"


class TokenJoined(Base, frozen=True, tag="token.joined"):
    step: str
    tokens: tuple[str, ...]
    entity = "workflow"


class StepScheduled(Base, frozen=True, tag="step.scheduled"):
    """A step-run exists. Without a pool the step has no tool and the router ends it itself."""

    run_id: str
    step: str
    tokens: tuple[str, ...] = ()
    digest: str = ""
    pool: str = ""
    loop: bool = False
    args: dict[str, Any] = {}
    scope: Scope = Scope()
    scope_ref: Ref | None = None
    deadline: str = ""


class CtxPatched(Base, frozen=True, tag="ctx.patched"):
    run_id: str
    patch: Patch
    entity = "workflow"
    state = "success"


class NextSelected(Base, frozen=True, tag="next.selected"):
    """The end of a step-run: its boundary event and the arcs that fired."""

    run_id: str
    step: str
    event: str
    arcs: tuple[str, ...] = ()
    entity = "workflow"
    state = "success"


class StepCancelled(Base, frozen=True, tag="step.cancelled"):
    run_id: str
    step: str
    reason: str
    state = "skipped"


# --- a lease's facts (worker) -------------------------------------------------------------


class StepStarted(Base, frozen=True, tag="step.started"):
    """A worker holds the run under the record's epoch from here on."""


class TaskStarted(Base, frozen=True, tag="task.started"):
    task: str
    attempt: int = 1
    entity = "tool"


class TaskDone(Base, frozen=True, tag="task.done"):
    """A finished attempt with its directive; enough to go on after it on another worker."""

    task: str
    attempt: int
    outcome: Outcome
    do: Literal["continue", "jump", "break", "fail"]
    to: str = ""
    set_iter: Patch = {}
    set_ctx: Patch = {}
    entity = "tool"
    state = "success"


class TaskRetried(Base, frozen=True, tag="task.retried"):
    """An attempt that will be tried again; `attempt` is the one that just ended."""

    task: str
    attempt: int
    outcome: Outcome
    delay: float = 0.0
    set_iter: Patch = {}
    set_ctx: Patch = {}
    entity = "retry"


class PolicyUnmatched(Base, frozen=True, tag="policy.unmatched"):
    task: str
    attempt: int
    entity = "tool"
    state = "error"


class StepDone(Base, frozen=True, tag="step.done"):
    result: Result = Result()
    ctx: tuple[Patch, ...] = ()
    state = "success"


class StepFailed(Base, frozen=True, tag="step.failed"):
    """From a worker about its lease; from the scheduler about the loop named by `run_id`."""

    error: dict[str, Any]
    ctx: tuple[Patch, ...] = ()
    run_id: str = ""
    step: str = ""
    state = "error"


class IterationDone(Base, frozen=True, tag="loop.iteration.done"):
    result: Result = Result()
    ctx: tuple[Patch, ...] = ()
    entity = "loop"
    state = "success"


class IterationFailed(Base, frozen=True, tag="loop.iteration.failed"):
    """From a worker about its lease; from the scheduler (`run_id`, `index`) when ctx writes clash."""

    error: dict[str, Any]
    ctx: tuple[Patch, ...] = ()
    run_id: str = ""
    index: int = -1
    entity = "loop"
    state = "error"


# --- loops and dispatch (scheduler) -------------------------------------------------------


class LoopStarted(Base, frozen=True, tag="loop.started"):
    run_id: str
    step: str
    count: int
    items: list[Any] = []
    items_ref: Ref | None = None
    max_in_flight: int = 1
    parallel: bool = False
    entity = "loop"


class IterationStarted(Base, frozen=True, tag="loop.iteration.started"):
    """A window of iterations, `first` … `first + count - 1`, goes to the pool."""

    run_id: str
    first: int
    count: int = 1
    entity = "loop"


class LoopDone(Base, frozen=True, tag="loop.done"):
    run_id: str
    step: str
    result: Result = Result()
    count: int = 0
    failed: int = 0
    failures: list[dict[str, Any]] = []
    ctx: tuple[Patch, ...] = ()
    entity = "loop"
    state = "success"


Event = (
    ExecutionRequested
    | RequestEvaluated
    | PlaybookStarted
    | WorkflowStarted
    | WorkflowFinished
    | PlaybookProcessed
    | TokenCreated
    | TokenRejected
    | TokenJoined
    | StepScheduled
    | CtxPatched
    | NextSelected
    | StepCancelled
    | StepStarted
    | TaskStarted
    | TaskDone
    | TaskRetried
    | PolicyUnmatched
    | StepDone
    | StepFailed
    | IterationDone
    | IterationFailed
    | LoopStarted
    | IterationStarted
    | LoopDone
)
