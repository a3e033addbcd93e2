"""A worker's facts about its lease."""

from typing import Any, Literal

from shared.events.outcome import Outcome, Ref, Result
from shared.events.parts import Base, Child, Patch


class StepStarted(Base, frozen=True, tag="step.started"):
    """A worker holds the run under the record's epoch from here on."""


class TaskStarted(Base, frozen=True, tag="task.started"):
    task: str
    attempt: int = 1
    entity = "tool"


class TaskDone(Base, frozen=True, tag="task.done"):
    """A finished attempt with its directive; enough to go on after it on another worker. `element` is the place
    in the task's own loop, which has `of` elements."""

    task: str
    attempt: int
    outcome: Outcome
    do: Literal["continue", "jump", "break", "fail"]
    to: str = ""
    set_iter: Patch = {}
    set_ctx: Patch = {}
    element: int = -1
    of: int = 0
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


class TaskWaiting(Base, frozen=True, tag="task.waiting"):
    """The task waits without a worker: for a child, a signal or a time; for the former until a time. It ends
    the lease and not the run. `wait` is the same however often the task is begun anew; a `pause` comes before
    the attempt."""

    task: str
    attempt: int
    wait: str
    child: Child | None = None
    until: str = ""
    pause: bool = False
    signal: str = ""
    schema: dict[str, Any] = {}
    entity = "tool"


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
    pool: str = ""
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


class LoopHalted(Base, frozen=True, tag="loop.halted"):
    """The worker that runs a local loop begins no further iteration, and those it had begun are over. `next` is the
    first one it has not begun, `index` the one after which `stop_when` holds, `error` why it cannot go on; with
    neither, it was told to stop."""

    next: int = 0
    index: int = -1
    error: dict[str, Any] | None = None
    entity = "loop"


class FrameClaimed(Base, frozen=True, tag="loop.frame.claimed"):
    """The rows of a frame, which are the next elements of the loop: written before the claim is committed. None
    of them: there was nothing left to claim."""

    count: int = 0
    rows: list[Any] = []
    rows_ref: Ref | None = None
    entity = "loop"
    state = "success"


class FrameFailed(Base, frozen=True, tag="loop.frame.failed"):
    """No row was claimed, and the loop cannot go on."""

    error: dict[str, Any]
    entity = "loop"
    state = "error"
