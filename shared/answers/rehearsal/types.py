"""What a rehearsal asks, what it may be answered, and its result."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.model.plan import Step
from shared.engine.pipeline.decide import Progress
from shared.engine.routing.state import Execution
from shared.engine.scheduling.state import Schedule
from shared.events import model as ev
from shared.events.outcome import Outcome, Result
from shared.events.record import Record
from shared.events.waits import Waits

Entry = tuple[int, Record]


class Need(Struct, frozen=True, kw_only=True):
    """A call that a worker would make now. `config` is rendered as the worker renders it, with `<keychain.…>` in
    place of secrets; `auth` and `credentials` name credentials. `element` is the place in the task's own loop,
    `number` counts the calls of the run: after a crash the same one comes again. `names` is all that the task's
    templates see. With a `frame` it is the claim of that frame of rows, for a loop with a cursor."""

    execution_id: str
    path: str
    step: str
    run_id: str
    index: int
    iter: dict[str, Any]
    task: str
    kind: str
    attempt: int
    element: int
    number: int
    config: dict[str, Any]
    spec: dict[str, Any]
    auth: Any
    credentials: dict[str, Any]
    args: dict[str, Any]
    key: str
    at: float
    line: int
    names: Mapping[str, Any]
    frame: int = -1


class Took(Struct, frozen=True):
    """The call ends with this after some virtual seconds, or at a time. `told`: its meta is what a worker made of
    it, and stays as it is."""

    outcome: Outcome
    seconds: float = 0.0
    at: float | None = None
    told: bool = False


class Ended(Struct, frozen=True):
    """How the child of a wait ends, some seconds after it was asked for or at a time."""

    status: ev.Ending
    result: Result = Result()
    error: dict[str, Any] | None = None
    seconds: float = 0.0
    at: float | None = None


class Awaits(Struct, frozen=True):
    """The task waits for a child, which ends so. `begins`: when it says that it waits."""

    waits: Waits
    ended: Ended | None = None
    begins: float | None = None


class Never(Struct, frozen=True):
    """The call does not come back: time or a stop ends it."""


class Decided(Struct, frozen=True):
    """What was decided about the call, taken over as it is."""

    events: tuple[ev.Event, ...]
    at: float | None = None


class Breaks(Struct, frozen=True):
    """The run fails wherever it is, by a fault of its worker."""

    error: dict[str, Any]
    at: float | None = None


Answered = Outcome | Took | Waits | Awaits | Never | Decided | Breaks | None
Answer = Callable[[Need], Answered]
Watch = Callable[[Step, Progress, Outcome, Mapping[str, Any]], None]  # what a policy is about to decide on


class Wish(Struct, frozen=True):
    """Something from outside, some virtual seconds after the start: a signal, a cancel, a pause, a resume. A signal
    may come before its wait. `source` names it; without one its place in the script does."""

    event: ev.SignalReceived | ev.CancelRequested | ev.PauseRequested | ev.ResumeRequested
    after: float = 0.0
    source: str = ""


class Rehearsed(Struct, frozen=True, kw_only=True):
    """`stuck`: nothing can proceed, for the `reason`; `needs` are the calls that nobody answered, `calls` all
    that were asked for. `entries` is the log, `values` what is stored beside it."""

    execution_id: str
    status: Literal["completed", "failed", "cancelled", "stuck", "limit"]
    reason: str
    state: Execution
    schedule: Schedule
    entries: list[Entry]
    values: dict[str, Any]
    calls: list[Need]
    needs: list[Need]
    crashes: int
    seconds: float
