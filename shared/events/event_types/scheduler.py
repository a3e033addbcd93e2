"""The scheduler's decisions: waits and loops."""

from typing import Any

from shared.events.bounds import Count, Index, Name, Text, Time
from shared.events.fields import Base, Patch, Taken
from shared.events.outcome import Outcome, Ref, Result


class TaskResumed(Base, frozen=True, tag="task.resumed"):
    """A wait is over: a worker continues with the outcome or, if there is none, makes the call. `signal` is
    the source of the signal that ended it."""

    run_id: Name
    wait: Text
    index: Index = -1
    outcome: Outcome | None = None
    signal: str = ""
    entity = "tool"


class SignalRejected(Base, frozen=True, tag="signal.rejected"):
    """Its payload does not match what the wait asks for; the wait continues."""

    source: str
    name: str
    error: str
    entity = "playbook"
    state = "error"


# --- loops and dispatch -------------------------------------------------------------------


class LoopStarted(Base, frozen=True, tag="loop.started"):
    """`items` are the frozen elements; of a loop with loops within it, their tree (`engine/scheduling/nesting.py`).
    `local`: one worker runs all iterations. `frame` is how many rows a loop with a cursor claims at a time; the
    elements it starts with, if any, are `taken` over like the results of some of them."""

    run_id: Name
    step: Name
    count: Count
    items: list[Any] = []
    items_ref: Ref | None = None
    max_in_flight: Count = 1
    parallel: bool = False
    deadline: Time = ""
    local: bool = False
    frame: Count = 0
    taken: Taken | None = None
    entity = "loop"


class FrameStarted(Base, frozen=True, tag="loop.frame.started"):
    """A worker is to claim the next rows of a loop with a cursor, at most `size` of them."""

    run_id: Name
    frame: Count
    size: Count
    entity = "loop"


class IterationStarted(Base, frozen=True, tag="loop.iteration.started"):
    """A window of iterations, `first` … `first + count - 1`, goes to the pool."""

    run_id: Name
    first: Count
    count: Count = 1
    entity = "loop"


class LoopStopped(Base, frozen=True, tag="loop.stopped"):
    """`stop_when` holds after the iteration `index`: no further one starts. Of a local loop, `next` is the first one
    that its worker has not begun."""

    run_id: Name
    index: Index
    next: Index = -1
    entity = "loop"


class LoopDone(Base, frozen=True, tag="loop.done"):
    """`count` are the iterations that were started: all of them, unless the loop was `stopped`."""

    run_id: Name
    step: Name
    result: Result = Result()
    count: Count = 0
    failed: Count = 0
    failures: list[dict[str, Any]] = []
    ctx: tuple[Patch, ...] = ()
    stopped: bool = False
    entity = "loop"
    state = "success"
