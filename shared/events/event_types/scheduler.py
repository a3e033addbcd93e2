"""The scheduler's decisions: waits and loops."""

from typing import Any

from shared.events.outcome import Outcome, Ref, Result
from shared.events.parts import Base, Patch, Taken


class TaskResumed(Base, frozen=True, tag="task.resumed"):
    """A wait is over: a worker goes on with the outcome, or, when there is none, makes the call. `signal` is
    the source of the signal that ended it."""

    run_id: str
    wait: str
    index: int = -1
    outcome: Outcome | None = None
    signal: str = ""
    entity = "tool"


class SignalRejected(Base, frozen=True, tag="signal.rejected"):
    """Its payload is not what the wait asks for; the wait goes on."""

    source: str
    name: str
    error: str
    entity = "playbook"
    state = "error"


# --- loops and dispatch -------------------------------------------------------------------


class LoopStarted(Base, frozen=True, tag="loop.started"):
    """`items` are the frozen elements; of a loop with loops within it, their tree (`engine/nesting.py`). `local`: one
    worker runs all iterations. `frame` is how many rows a loop with a cursor claims at a time; the elements it
    starts with, if any, are `taken` over like the results of some of them."""

    run_id: str
    step: str
    count: int
    items: list[Any] = []
    items_ref: Ref | None = None
    max_in_flight: int = 1
    parallel: bool = False
    deadline: str = ""
    local: bool = False
    frame: int = 0
    taken: Taken | None = None
    entity = "loop"


class FrameStarted(Base, frozen=True, tag="loop.frame.started"):
    """A worker is to claim the next rows of a loop with a cursor, at most `size` of them."""

    run_id: str
    frame: int
    size: int
    entity = "loop"


class IterationStarted(Base, frozen=True, tag="loop.iteration.started"):
    """A window of iterations, `first` … `first + count - 1`, goes to the pool."""

    run_id: str
    first: int
    count: int = 1
    entity = "loop"


class LoopStopped(Base, frozen=True, tag="loop.stopped"):
    """`stop_when` holds after the iteration `index`: no further one starts. Of a local loop, `next` is the first one
    that its worker has not begun."""

    run_id: str
    index: int
    next: int = -1
    entity = "loop"


class LoopDone(Base, frozen=True, tag="loop.done"):
    """`count` are the iterations that were started: all of them, unless the loop was `stopped`."""

    run_id: str
    step: str
    result: Result = Result()
    count: int = 0
    failed: int = 0
    failures: list[dict[str, Any]] = []
    ctx: tuple[Patch, ...] = ()
    stopped: bool = False
    entity = "loop"
    state = "success"
