"""A lease on this worker: does over bus, tools and clock what the machine of the lease asks for.

How a run advances is the machine's (`shared/engine/pipeline/machine.py`); what the outside is like is known here alone.
An effect that fails is raised inside the machine, where it was asked for. A cancellation leaves the machine where it
stands: then `stopped`, `give_up` or `release` says the last word.

Whatever a machine is told of a call has the values of the run's credentials taken out of it here. It is the one place:
a machine has nothing to write that it was not told.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from services.worker import calls
from services.worker.history import Histories
from services.worker.hold import Hold
from services.worker.journal import Journal
from shared.bus.ports import Bus, Clock
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.effects import Effect, Steps
from shared.engine.pipeline.notes import Notes
from shared.engine.values.redaction import Secrets
from shared.events.command import Command
from shared.events.outcome import Outcome
from shared.events.record import Lease
from shared.runtime.stores import results
from shared.tools.toolbox import Tools

T = TypeVar("T")


class Outside(Struct, frozen=True):
    """What the leases of one worker have in common."""

    bus: Bus
    clock: Clock
    tools: Tools
    histories: Histories
    worker: str
    partitions: int


class Machine(Protocol):
    notes: Notes

    def run(self) -> Steps[object]: ...

    def stopped(self) -> Steps[None]: ...

    def give_up(self, error: dict[str, Any]) -> Steps[None]: ...


class Interpreter(ABC):
    """`looked` is what `absences` said at the last look into the log."""

    def __init__(
        self, outside: Outside, plan: Plan, command: Command, hold: Hold, machine: Machine, looked: int
    ) -> None:
        self._bus, self._clock, self._outside = outside.bus, outside.clock, outside
        self._plan, self._command, self._hold, self._looked = plan, command, hold, looked
        self._machine, self._lease = machine, machine.notes.lease
        self._journal = Journal(outside.bus, outside.clock, machine.notes, outside.partitions, command.cause)
        self._secrets: Secrets | None = None  # that calls of the run were given

    # -- words from the worker -----------------------------------------------------------

    async def run(self) -> None:
        """Raises Fenced when it is someone else's or over; any return means: acknowledge."""
        await self.drive(self._machine.run())

    async def stopped(self) -> None:
        """Ends it because it was told to stop."""
        await self.drive(self._machine.stopped())

    async def give_up(self, error: Exception) -> None:
        """Ends it as failed after an error of the worker itself."""
        why = pipeline_call.internal(error)
        await self.drive(self._machine.give_up(self._secrets.value(why) if self._secrets else why))

    async def release(self, why: str) -> None:
        """Says that the lease is handed back on purpose."""
        await self._journal.release(self._secrets.value(why) if self._secrets else why)

    def pause(self, at: int) -> None:  # noqa: B027 - what is in flight finishes: most leases have nothing to do
        """Its execution pauses."""

    # -- effects -------------------------------------------------------------------------

    async def drive(self, steps: Steps[T]) -> T:
        """Does what is asked for until the machine has ended; what comes of it."""
        answer: Any
        try:
            effect = next(steps)
            while True:
                try:
                    # The frequent ones by their type: a Struct's class pattern that does not match takes long.
                    if type(effect) is ef.Now:
                        answer = self._clock.now()
                    elif type(effect) is ef.Flush:
                        answer = None
                        await self._journal.flush()
                    elif type(effect) is ef.Stay:
                        self._looked = answer = await self._hold.stay(self._looked, self._known)
                    elif type(effect) is ef.IsFresh:
                        answer = self._hold.is_fresh()
                    else:
                        answer = await self._do(effect)
                except Exception as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as end:
            ended: T = end.value
            return ended
        finally:
            steps.close()

    async def _do(self, effect: Effect) -> Any:
        """What leases ask for less often."""
        match effect:
            case ef.Sleep(until=until):
                await self._clock.sleep(max(0.0, until - self._clock.now()))
            case ef.Bring(ref=ref):
                return await results.load(self._bus, ref)
            case ef.FindCredentials():
                found = await calls.find(self._bus, effect)
                if isinstance(found, ef.Found):
                    self._learn(found.auth, found.others)
                return found
            case ef.FindKeychain():
                keychain = await calls.keychain(self._bus, self._plan)
                self._learn(keychain)
                return keychain
            case ef.Read():
                return await self._read()
            case ef.Extend():
                self._looked = await self._hold.before_claim()
            case ef.Claimed():
                await self._hold.say_claimed()
            case ef.Settle():
                await self._journal.settle()
            case _:
                raise AssertionError(f"nobody does {type(effect).__name__} here")
        return None

    def _learn(self, *credentials: Any) -> None:
        if self._secrets is None:
            self._secrets = Secrets()
        self._secrets.learn(*credentials)

    async def _hidden(self, outcome: Outcome) -> Outcome:
        return await calls.hidden(self._secrets, outcome) if self._secrets else outcome

    @abstractmethod
    async def _read(self) -> Any:
        """What the log says of it."""

    @abstractmethod
    async def _known(self) -> object:
        """The same; raises Fenced when it is not ours any more."""


def lease_of(outside: Outside, command: Command, hold: Hold) -> Lease:
    return Lease(command.run_id, command.step, hold.epoch, outside.worker, command.index, command.pool, hold.pid)
