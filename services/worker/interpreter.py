"""A lease on this worker: performs with bus, tools and clock the effects that the machine of the lease asks for.

1. How a run advances is decided by the machine (`shared/engine/pipeline/machine.py`), which has no I/O. It yields
   effects; the interpreter performs each and sends the answer back. A rehearsal interprets the same machines without a
   worker, so both advance a run by the same rules.
2. An effect that fails is raised inside the machine, at the point where it was asked for: only the machine knows what
   that means for the run.
3. A cancellation is not: it leaves the machine where it is and closes it. Then `stopped`, `give_up` or `release` writes
   the last event, as if every effect could have been the last.
4. Whether the run is still ours is asked through `Stay` (`hold.py`); the interpreter remembers how many absences there
   were at the last look into the log.
5. The values of the run's credentials are taken out here of whatever a machine is told about a call. It is the one
   place: a machine has nothing to write that it was not told.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from services.worker import calls
from services.worker.counts import Counts
from services.worker.history import Histories
from services.worker.hold import Hold
from services.worker.journal import Journal
from shared.bus.ports import Bus, Clock
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline import ownership
from shared.engine.pipeline.effects import Call, Effect, Finish, Flush, Fresh, Now, Send, Stay, Steps
from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.notes import MAX_WHY, Notes
from shared.engine.values.redaction import Secrets
from shared.engine.values.stored_values import owner_of
from shared.errors import Unreadable
from shared.events.beat import Saying
from shared.events.command import Command
from shared.events.outcome import Outcome, Ref
from shared.events.record import Lease
from shared.events.waits import Waits
from shared.runtime.stores import results
from shared.tools.toolbox import Tools

T = TypeVar("T")


class Outside(Struct, frozen=True):
    """What all leases of one worker share."""

    bus: Bus
    clock: Clock
    tools: Tools
    histories: Histories
    worker: str
    partitions: int
    counts: Counts = field(default_factory=Counts)


class Machine(Protocol):
    notes: Notes

    def run(self) -> Steps[object]: ...

    def stopped(self) -> Steps[None]: ...

    def give_up(self, error: dict[str, Any]) -> Steps[None]: ...


class Interpreter:
    """`looked` is the number of absences at the last look into the log."""

    def __init__(
        self, outside: Outside, plan: Plan, command: Command, hold: Hold, machine: Machine, looked: int
    ) -> None:
        self._bus, self._clock, self._outside = outside.bus, outside.clock, outside
        self._plan, self._command, self._hold, self._looked = plan, command, hold, looked
        self._machine, self._notes, self._lease = machine, machine.notes, machine.notes.lease
        self._journal = Journal(outside.bus, outside.clock, machine.notes, outside.partitions, command.cause)
        self._secrets: Secrets | None = None  # that calls of the run were given

    # -- words from the worker -----------------------------------------------------------

    async def run(self) -> None:
        """Raises Fenced if another worker has it or it is over; any return means: acknowledge."""
        await self.drive(self._machine.run())

    async def stopped(self) -> None:
        """Ends it because the scheduler said to stop it."""
        await self.drive(self._machine.stopped())

    async def give_up(self, error: Exception) -> None:
        """Ends it as failed after an error of the worker itself."""
        why = pipeline_call.internal(error)
        await self.drive(self._machine.give_up(self._secrets.value(why) if self._secrets else why))

    async def release(self, why: str) -> None:
        """Says that the lease is handed back on purpose."""
        await self._journal.release(self._said(why))

    async def released(self, why: str) -> int | None:
        """How many times in a row it was handed back for this reason, whoever had it; None if nothing of this lease is
        in the log."""
        if not self._journal.has_spoken:
            return None
        known = (await self._read()).released
        return known.times if known.why == self._said(why)[:MAX_WHY] else 0

    def _said(self, why: str) -> str:
        return str(self._secrets.value(why)) if self._secrets else why

    def saying(self) -> Iterable[Saying]:
        """What its calls have printed last."""
        return ()

    def pause(self, at: int) -> None:
        """Its execution pauses. What is in flight finishes: most leases have nothing to do."""

    async def look(self) -> None:
        """Raises Fenced when the log says that it is not ours any more."""
        known = await self._read()
        ownership.check(self._lease, known.epoch, over=known.over, held=known.held)

    # -- effects -------------------------------------------------------------------------

    async def drive(self, steps: Steps[T]) -> T:
        """Performs effects until the machine has ended; returns its result. (What `Driver` does, in one place: a
        short run has three effects, and every worker all of them.)"""
        send, throw = steps.send, steps.throw
        answer: Any = None
        failed: Exception | None = None
        try:
            while True:
                if failed is None:
                    effect = send(answer)
                else:
                    error, failed = failed, None
                    effect = throw(error)
                try:
                    # The frequent ones by their type: a Struct's class pattern that does not match takes long.
                    if type(effect) is Call:
                        answer = await self._call(effect)
                    elif type(effect) is Finish:
                        if not self._hold.is_certain(self._looked):
                            await self._stay()
                        (answer,) = self._notes.note(effect.event)
                        await self._journal.flush()
                    elif type(effect) is Fresh:
                        answer = self._clock.now() if self._hold.is_fresh() else None
                    elif type(effect) is Now:
                        answer = self._clock.now()
                    elif type(effect) is Flush:
                        answer = None
                        await self._journal.flush()
                    elif type(effect) is Send:
                        answer = None
                        await self._journal.send()
                    elif type(effect) is Stay:
                        answer = None
                        await self._stay()
                    else:
                        answer = await self._do(effect)
                except Exception as raised:
                    failed = raised
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # a generator's, which says T
        finally:
            steps.close()

    async def _stay(self) -> None:
        if not self._hold.is_certain(self._looked):
            self._looked = await self._hold.stay(self._looked, self._known)

    async def _call(self, effect: Call) -> tuple[float, Outcome] | Waits | None:
        raise AssertionError(f"nobody calls {effect.task.kind} here")

    async def _do(self, effect: Effect) -> Any:
        """The less frequent effects."""
        match effect:
            case ef.Sleep(until=until):
                await self._clock.sleep(max(0.0, until - self._clock.now()))
            case ef.Bring(ref=ref):
                return await self._bring(ref)
            case ef.FindCredentials():
                found = await calls.find(self._bus, effect)
                if isinstance(found, ef.Found):
                    self._learn(found.auth, found.others)
                return found
            case ef.FindKeychain(names=names):
                keychain = await calls.keychain(self._bus, self._plan, names)
                self._learn(keychain)
                return keychain
            case ef.Read():
                return await self._read()
            case ef.Extend():
                self._looked = await self._hold.before_claim()
                return self._hold.follows_outage()
            case ef.Claimed():
                await self._hold.say_claimed()
            case ef.Settle():
                await self._journal.settle()
            case _:
                raise AssertionError(f"nobody does {type(effect).__name__} here")
        return None

    async def _bring(self, ref: Ref) -> Any:
        """The stored value; the error of one that is not to be had says whose it is and who asked for it."""
        try:
            return await results.load(self._bus, ref)
        except (Unreadable, results.ValueMissing) as error:
            whose = owner_of(self._command.scope, ref)
            raise type(error)(f"step {self._command.step} cannot read {whose}: {error}") from None

    def _learn(self, *credentials: Any) -> None:
        if self._secrets is None:
            self._secrets = Secrets()
        self._secrets.learn(*credentials)

    async def _hidden(self, outcome: Outcome) -> Outcome:
        return await calls.hidden(self._secrets, outcome) if self._secrets else outcome

    async def _read(self) -> History | LoopHistory:
        """What the log says about what is held."""
        return await self._outside.histories.read(self._command)

    async def _known(self) -> None:
        """Raises Fenced when nothing may be done under the lease any more."""
        await self.look()


def lease_of(outside: Outside, command: Command, hold: Hold) -> Lease:
    return Lease(command.run_id, command.step, hold.epoch, outside.worker, command.index, command.pool, hold.pid)
