"""A worker's lease in a rehearsal: what it writes, and when it goes on. What it does in between is a generator that
yields the time at which it goes on (`rehearsal_hold.py`, `rehearsal_local.py`, `rehearsal_frame.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import Any, Literal, Protocol, TypeVar

from shared.dsl.kinds import ToolSpec
from shared.dsl.plan import Plan, Step
from shared.engine.large import TooLarge
from shared.engine.rehearsal_log import Key, Log
from shared.engine.rehearsal_types import Answer, Ended, Need, Watch
from shared.events import model as ev
from shared.events.command import Command
from shared.events.index import RUN
from shared.events.record import Epoch, Lease, Writer
from shared.events.stamp import seconds, stamp

FOREVER = float("inf")
Death = Literal["", "before", "after", "zombie"]
T = TypeVar("T")
Steps = Generator[float, None, T]  # the times at which the run goes on, and what comes of it


def tick(time: float) -> float:
    """The time as a record tells it, so that a clock which jumps there has reached it."""
    return time if time == FOREVER else seconds(stamp(time))


class Died(Exception):
    """The worker is gone, with what it had noted and not written."""


class Broken(Exception):
    """The run ends here, by a fault of its worker."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.error = error


class Parked(Exception):
    """The task at hand waits; the lease is over."""


class Stage(Protocol):
    """What a lease sees of the rehearsal around it."""

    now: float
    plan: Plan
    kinds: Mapping[str, ToolSpec]
    log: Log
    answer: Answer
    calls: list[Need]
    needs: list[Need]
    timed: bool
    watch: Watch | None

    def write(self, hold: "LeaseHold", writer: Writer, events: list[ev.Event]) -> None: ...

    def parks(self, hold: "LeaseHold", event: ev.TaskWaiting, ended: Ended | None) -> None: ...

    @property
    def is_paused(self) -> bool: ...

    def leaves(self, hold: "LeaseHold") -> None:
        """It is given out again when the execution goes on."""

    def death(self, call: str) -> Death: ...

    def given_up(self, hold: "LeaseHold") -> None:
        """The worker is taken for dead while it goes on."""


class LeaseHold(ABC):
    """`wake` is when it goes on; `over`: it has said its last word. `own` is who it writes as."""

    own: Writer

    def __init__(self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool) -> None:
        self._stage, self.command, self._fresh = stage, command, fresh
        self.key: Key = (command.run_id, command.index)
        self.step: Step = stage.plan.steps[command.step]
        self.lease = Lease(command.run_id, command.step, epoch, f"worker-{epoch[0]}", command.index)
        self.own = "worker" if command.index == RUN else "iteration"
        self.n = 0
        self.over = False
        self.wake = stage.now
        self.values = stage.log.values
        self._noted: list[ev.Event] = []
        self._due = FOREVER
        self._steps = self._run()

    @abstractmethod
    def _run(self) -> Steps[None]:
        """Everything it does, up to its last word."""

    def go_on(self) -> bool:
        """As far as it gets; False when the lease is over or its worker dead."""
        try:
            self.wake = next(self._steps)
            return True
        except (StopIteration, Parked):
            return False

    def stop(self) -> None:
        """It was told to."""
        self._steps.close()
        self._noted = []
        if not self.over:
            self._stopped()

    @abstractmethod
    def _stopped(self) -> None:
        """What it says then."""

    def _until(self, time: float) -> Steps[None]:
        """A call under way, at most until the run is over its time."""
        if time <= self._stage.now:
            return
        self._flush()
        until = tick(min(time, self._due))
        while self._stage.now < until:
            yield until

    def _note(self, *events: ev.Event) -> list[ev.Event]:
        small = self._stage.log.small(list(events), self.step.max_payload_bytes)
        self._noted += small
        return small

    def _flush(self, writer: Writer | None = None) -> None:
        events, self._noted = self._noted, []
        if events:
            self._write(writer or self.own, events)

    def _write(self, writer: Writer, events: list[ev.Event]) -> None:
        """What does not fit into one record goes into several."""
        try:
            self._stage.write(self, writer, events)
        except TooLarge:
            if len(events) == 1:
                raise
            half = len(events) // 2
            self._write(self.own, events[:half])
            self._write(writer, events[half:])
