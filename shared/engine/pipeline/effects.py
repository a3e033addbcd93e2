"""What the machine of a lease asks of the outside, as values, and what it may be answered.

A machine is a generator: it yields an effect and receives the answer where it is. An effect that fails is raised
there, so that a machine may catch what it can do something about; the rest ends it. Whoever answers is an interpreter:
the worker, over bus, tools and clock, or a rehearsal, with answers and a clock that jumps. What can be computed is no
effect: a machine calls it.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from shared.dsl.model.plan import Task
from shared.engine.pipeline.call import Asked
from shared.engine.pipeline.decide import Progress
from shared.engine.pipeline.history import History
from shared.engine.values.stored_values import Missing
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, Ref

T = TypeVar("T")


class Effect(Struct, frozen=True):
    """Answered with None unless it says otherwise."""


Steps = Generator[Effect, Any, T]


# -- every lease -------------------------------------------------------------------------


class Now(Effect, frozen=True):
    """Answered with the time."""


class Sleep(Effect, frozen=True):
    until: float


class Flush(Effect, frozen=True):
    """Everything noted is in the log when this is answered. Raises Unstorable for what cannot be written."""


class Send(Effect, frozen=True):
    """What is noted is on its way to the log when this is answered, and nobody waits until it is there; behind a record
    that is still on its way it waits for the next one. Raises Unstorable as a flush does."""


class Settle(Effect, frozen=True):
    """What was on its way when a flush was cut short is in the log, and counted."""


class Stay(Effect, frozen=True):
    """Checks that the run is still ours before anything has an effect. Raises Fenced if it is not."""


class Fresh(Effect, frozen=True):
    """Answered with the time if nobody else can have held it: then there is no history to read. Otherwise with None."""


class Finish(Effect, frozen=True):
    """`Stay`; then the event is noted, as the last of the lease, and flushed. Answered with it as it is in the log."""

    event: ev.Event


class Extend(Effect, frozen=True):
    """Extends the lease, so that it lasts from now on: a claim follows. The answer: whether the broker did not answer
    shortly before."""


class Read(Effect, frozen=True):
    """Answered with what the log says of it by now: a History, of a local loop a LoopHistory."""


class Claimed(Effect, frozen=True):
    """The claim is in the log: a worker that held it before is to look there."""


class Bring(Effect, frozen=True):
    """Answered with the stored value."""

    ref: Ref


# -- a call ------------------------------------------------------------------------------


class FindKeychain(Effect, frozen=True):
    """Answered with the credentials that the playbook declares, by name. `names` are what the templates see that say
    which credential is meant."""

    names: Mapping[str, Any]


class FindCredentials(Effect, frozen=True):
    """Answered with what these names stand for, as `Found`; or with the Outcome of a call that lacks one."""

    auth: Any
    others: Mapping[str, Any]


class Found(Struct, frozen=True):
    auth: Mapping[str, Any] | None = None
    others: Mapping[str, Mapping[str, Any]] = {}


class Prepared(Struct, frozen=True):
    """All that a call is made of. `secrets` is the keychain, if its templates read it."""

    asked: Asked
    found: Found = Found()
    secrets: Mapping[str, Any] = {}


class TakeTurn(Effect, frozen=True):
    """The tool of the task is called next; a kind may make a limited number of calls at a time. Answered with how long
    it took. `begun`: the log knows of the lease, or is about to."""

    task: Task
    begun: bool


class ComeUp(Effect, frozen=True):
    """These are called first. If every one of them needs a turn, one has to be near: as far as the head of the line,
    and no turn is taken, because a claim comes in between. A run that waits in the queue instead writes nothing."""

    tasks: tuple[Task, ...]


class LeaveTurn(Effect, frozen=True):
    """There is no call after all."""


class Call(Effect, frozen=True):
    """Answered as `Ended` is, with the time and the outcome of the call; with Waits, when the task is to be parked;
    with None, when there was no answer within `limit` seconds; or with Judged."""

    task: Task
    progress: Progress
    names: Mapping[str, Any]
    prepared: Prepared
    key: str
    limit: float
    pure: bool


class Judged(Struct, frozen=True):
    """The outcome of the call was decided before: a recorded execution is run again."""

    events: tuple[ev.Event, ...]


class Ended(Effect, frozen=True):
    """The call is over with this outcome although no tool has answered so, or is not made because of it. Its turn is
    free. Answered with the time, and with the outcome as it may be known: without the secrets that calls of the run
    were given."""

    progress: Progress
    outcome: Outcome
    names: Mapping[str, Any]


class Park(Effect, frozen=True):
    """A flush, of which the wait is the last event: the run continues under another lease."""

    event: ev.TaskWaiting


# -- a local loop ------------------------------------------------------------------------


class IsStopping(Effect, frozen=True):
    """Answered with whether this worker is about to stop."""


class IsPaused(Effect, frozen=True):
    """Answered with whether the execution is paused."""


class Begin(Effect, frozen=True):
    """An iteration begins, beside those that run; `before` is what the log has of it."""

    command: Command
    before: History


class Next(Effect, frozen=True):
    """Answered with the iterations that ended next, one or more, by index, each with its last event."""


# -- a frame of rows ---------------------------------------------------------------------


class ClaimRows(Effect, frozen=True):
    """The query, in a transaction. Its rows go through `keep`, whose steps say whether it is to be committed.
    Answered with the Outcome of the whole, or with Judged."""

    task: Task
    attempt: int
    names: Mapping[str, Any]
    prepared: Prepared
    key: str
    limit: float
    keep: Callable[[Outcome], Steps[bool]]


# -- what machines have in common --------------------------------------------------------


def brought(values: dict[str, Any], work: Callable[[], T]) -> Steps[T]:
    """Runs the work, adding stored values that it misses to `values`."""
    while True:
        try:
            return work()
        except Missing as missing:
            ref = missing.ref
        values[ref.checksum] = yield Bring(ref)
