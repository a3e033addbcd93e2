"""A worker's lease in a rehearsal: does what the machine of the lease asks for (`engine/pipeline/machine.py`), with
answers instead of tools, a log in memory, and a clock that jumps. A lease is a generator of the times at which it
continues."""

from abc import ABC
from collections.abc import Generator, Mapping
from typing import Any, Literal, Protocol, TypeVar

from shared.answers.rehearsal.log import Key, Log
from shared.answers.rehearsal.types import Answer, Ended, Need, Watch
from shared.dsl.model.plan import Plan, Step
from shared.dsl.model.tool_spec import ToolSpec
from shared.engine.leases.lost_leases import PROGRESS
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline import history as pipeline_history
from shared.engine.pipeline.driver import Driver
from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.masked_keychain import keychain
from shared.engine.pipeline.notes import Notes
from shared.engine.pipeline.ownership import Fenced
from shared.engine.values.stored_values import Missing, Unstorable
from shared.errors import Signal
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Epoch, Lease
from shared.events.stamp import seconds, stamp

FOREVER = float("inf")
Death = Literal["", "before", "after", "zombie"]
T = TypeVar("T")
Times = Generator[float, None, T]  # the times at which the lease continues, and its result


def tick(time: float) -> float:
    """The time as a record tells it, so that a clock which jumps there has reached it."""
    return time if time == FOREVER else seconds(stamp(time))


class Died(Signal):
    """The worker is gone, with what it had noted and not written."""


class WorkerFault(Signal):
    """The run ends here, by a fault of its worker."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.error = error


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

    def is_over_events(self, more: int = 0) -> bool: ...
    def write(self, notes: Notes, events: list[ev.Event]) -> None: ...

    def parks(self, hold: "LeaseHold", event: ev.TaskWaiting, ended: Ended | None) -> None: ...

    @property
    def is_paused(self) -> bool: ...

    def leaves(self, hold: "LeaseHold") -> None:
        """It is handed out again when the execution resumes."""

    def death(self, call: str) -> Death: ...

    def given_up(self, hold: "LeaseHold") -> None:
        """The worker is considered dead while it continues."""


class Machine(Protocol):
    notes: Notes
    due: float

    def run(self) -> ef.Steps[object]: ...

    def stopped(self) -> ef.Steps[None]: ...

    def give_up(self, error: dict[str, Any]) -> ef.Steps[None]: ...


class LeaseHold(ABC):
    """`wake` is when it continues. `lost` counts the leases in a row that were lost before it, with no progress
    since."""

    machine: Machine

    def __init__(self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool) -> None:
        self._stage, self.command, self._fresh = stage, command, fresh
        self.key: Key = (command.run_id, command.index)
        self.step: Step = stage.plan.steps[command.step]
        self.lease = Lease(command.run_id, command.step, epoch, f"worker-{epoch[0]}", command.index, command.pool)
        self.wake = stage.now
        self.values = stage.log.values
        self.lost = 0
        self._times = self._run()

    def _run(self) -> Times[None]:
        """Everything it does, up to its last event."""
        try:
            yield from self._play(self.machine.run())
        except Fenced:
            return  # it is over, or a later lease has it
        except WorkerFault as broken:
            yield from self._play(self.machine.give_up(broken.error))

    def go_on(self) -> bool:
        """As far as it gets; False when the lease is over or its worker dead."""
        try:
            self.wake = next(self._times)
            return True
        except StopIteration:
            return False

    def stop(self) -> None:
        """It was told to stop."""
        self._times.close()
        for _ in self._play(self.machine.stopped()):
            """No time passes."""

    # -- effects -------------------------------------------------------------------------

    def _play(self, steps: ef.Steps[T]) -> Times[T]:
        """Performs effects until the machine has ended; returns its result."""
        with Driver(steps) as driver:
            for effect in driver:
                try:
                    driver.answer = yield from self._do(effect)
                except Exception as error:
                    driver.fail(error)
        return driver.ended

    def _do(self, effect: ef.Effect) -> Times[Any]:
        match effect:
            case ef.Now():
                return self._stage.now
            case ef.Flush() | ef.Send():
                yield from self._flush_within_limits()
            case ef.Sleep(until=until):
                yield tick(until)
            case ef.Bring(ref=ref):
                raise Missing(ref)
            case ef.FindCredentials():
                return ef.Found()
            case ef.FindKeychain():
                return keychain(self._stage.plan)
            case ef.Fresh():
                return self._stage.now if self._fresh else None
            case ef.Finish(event=event):
                (ended,) = self.machine.notes.note(event)
                yield from self._flush_within_limits()
                return ended
            case ef.Read():
                known = self._read()
                self.lost = len(known.lost)
                return known
            case ef.Stay() | ef.Extend() | ef.Claimed() | ef.Settle():
                return None  # nobody is away, and nothing gets lost on its way
            case _:
                raise AssertionError(f"nobody does {type(effect).__name__} here")

    def _read(self) -> History | LoopHistory:
        return pipeline_history.accept(self._stage.log.about(self.key), *self.key)

    def _until(self, time: float) -> Times[None]:
        """A call under way, at most until the run is over its time."""
        if time <= self._stage.now:
            return
        self._flush()
        until = tick(min(time, self.machine.due))
        while self._stage.now < until:
            yield until

    def _flush_within_limits(self) -> Times[None]:
        """The stage says so, before a run without end does."""
        self._flush()
        if self._stage.is_over_events():
            yield self._stage.now

    def _flush(self) -> None:
        notes = self.machine.notes
        events = notes.take()
        self._stage.log.store(notes.take_stored())
        if events:
            self._write(events)

    def _write(self, events: list[ev.Event]) -> None:
        """What does not fit into one record goes into several."""
        try:
            self._stage.write(self.machine.notes, events)
        except Unstorable:
            if len(events) == 1:
                raise
            half = len(events) // 2
            self._write(events[:half])
            self._write(events[half:])
            return
        if any(isinstance(event, PROGRESS) for event in events):
            self._progressed()

    def _progressed(self) -> None:
        self.lost = 0
