"""A worker's facts about its lease."""

from typing import Any, Literal

from shared.events.bounds import Attempt, Count, Delay, Index, Name, Text, Time
from shared.events.fields import Base, Child, Growth, Patch, Printed
from shared.events.outcome import Outcome, Ref, Result


class StepStarted(Base, frozen=True, tag="step.started"):
    """A worker holds the run under the record's epoch from here on. `outage`: the broker had not answered this worker
    shortly before, so the lease before this one ended without any fault of its worker."""

    outage: bool = False


class LeaseReleased(Base, frozen=True, tag="lease.released"):
    """The worker handed the run back on purpose: the lease is over and was not lost, and another one continues.
    `printed`: by the call that was under way."""

    why: Text = ""
    printed: Printed | None = None


class TaskStarted(Base, frozen=True, tag="task.started"):
    task: Name
    attempt: Attempt = 1
    entity = "tool"


class TaskDone(Base, frozen=True, tag="task.done"):
    """A finished attempt with its directive; enough to continue after it on another worker. `element` is the index
    in the task's own loop, which has `of` elements. `grow` adds to values of `iter`;
    `collected` are the keys of `set_ctx` that have grown so, and are kept by reference when they are large."""

    task: Name
    attempt: Attempt
    outcome: Outcome
    do: Literal["continue", "jump", "break", "fail"]
    to: Text = ""
    set_iter: Patch = {}
    set_ctx: Patch = {}
    element: Index = -1
    of: Count = 0
    grow: tuple[Growth, ...] = ()
    collected: tuple[Name, ...] = ()
    entity = "tool"
    state = "success"


class TaskRetried(Base, frozen=True, tag="task.retried"):
    """An attempt that will be tried again; `attempt` is the one that just ended."""

    task: Name
    attempt: Attempt
    outcome: Outcome
    delay: Delay = 0.0
    set_iter: Patch = {}
    set_ctx: Patch = {}
    grow: tuple[Growth, ...] = ()
    entity = "retry"


class TaskWaiting(Base, frozen=True, tag="task.waiting"):
    """The task waits without a worker: for a child, a signal or a time; for the former until a time. It ends
    the lease and not the run. `wait` is the same however often the task is begun again; a `pause` comes before
    the attempt."""

    task: Name
    attempt: Attempt
    wait: Text
    child: Child | None = None
    until: Time = ""
    pause: bool = False
    signal: Text = ""
    schema: dict[str, Any] = {}
    entity = "tool"


class PolicyUnmatched(Base, frozen=True, tag="policy.unmatched"):
    task: Name
    attempt: Attempt
    entity = "tool"
    state = "error"


class StepDone(Base, frozen=True, tag="step.done"):
    result: Result = Result()
    ctx: tuple[Patch, ...] = ()
    state = "success"


class StepFailed(Base, frozen=True, tag="step.failed"):
    """From a worker about its lease; from the scheduler about the loop named by `run_id`. `printed`: by the call that
    was under way when the run was told to stop."""

    error: dict[str, Any]
    ctx: tuple[Patch, ...] = ()
    run_id: Text = ""
    step: Text = ""
    pool: Text = ""
    printed: Printed | None = None
    state = "error"


class IterationDone(Base, frozen=True, tag="loop.iteration.done"):
    result: Result = Result()
    ctx: tuple[Patch, ...] = ()
    entity = "loop"
    state = "success"


class IterationFailed(Base, frozen=True, tag="loop.iteration.failed"):
    """From a worker about its lease; from the scheduler (`run_id`, `index`) when ctx writes clash. `printed`: as of a
    step."""

    error: dict[str, Any]
    ctx: tuple[Patch, ...] = ()
    run_id: Text = ""
    index: Index = -1
    printed: Printed | None = None
    entity = "loop"
    state = "error"


class LoopHalted(Base, frozen=True, tag="loop.halted"):
    """The worker that runs a local loop begins no further iteration, and those it had begun are over. `next` is the
    first one it has not begun, `index` the one after which `stop_when` holds, `error` why it cannot continue; with
    neither, it was told to stop."""

    next: Count = 0
    index: Index = -1
    error: dict[str, Any] | None = None
    entity = "loop"


class FrameClaimed(Base, frozen=True, tag="loop.frame.claimed"):
    """The rows of a frame, which are the next elements of the loop: written before the claim is committed. None
    of them: there was nothing left to claim."""

    count: Count = 0
    rows: list[Any] = []
    rows_ref: Ref | None = None
    entity = "loop"
    state = "success"


class FrameFailed(Base, frozen=True, tag="loop.frame.failed"):
    """No row was claimed, and the loop cannot continue."""

    error: dict[str, Any]
    entity = "loop"
    state = "error"
