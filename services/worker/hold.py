"""A run that this worker holds: the delivery it is held by, what runs, and whether it is still ours.

1. *A worker holds a run, not a message.* The command of a held run may come again: its lease was lost and this
   worker was given the next one, or a scheduler took the worker for dead. Then the run continues, and the new delivery
   replaces the old one for acknowledgements and extensions: it is *adopted*.
2. *The records keep the first epoch.* This worker has the newest lease, so a higher epoch can be in the log only if
   somebody else had one in between. The worker looks once (`doubt`). If it is so, the run ends here as fenced, and the
   adopted delivery is begun like any other, with a claim of its own (`renew`).
3. *A command with a later `since` is another one.* It comes after a wait, while this worker is still writing that the
   task waits. It is kept (`later`) and begun when the present one has ended.
4. *After an absence nothing is certain.* The worker was frozen or cut off for so long that others may have its runs
   (`presence.py`). So before everything that cannot be undone, `stay` extends the lease, waits until a successor would
   have claimed the run, and asks the log. Without an absence it costs nothing.
5. *Whoever claims says so* to the others of the pool (`say_claimed`), so that a former holder's call is cut short. The
   word may get lost and is never believed by itself: who hears it looks into the log.
6. *Nothing is kept by accident.* Ending and handing back repeat until the delivery they dealt with is still the current
   one, because another may be adopted while they wait for the broker. A delivery left behind would keep the run
   invisible until its lease is over.
7. *What is extended is let go of.* The broker takes the word of former holders too: an extension by one of them undoes
   the delay with which the present holder handed the command back, and so it would wait for a lease with nobody
   holding it. So a worker that is fenced by a lease that has ended gives the command back (`lose`). Somebody may have
   it by now and not have claimed it yet, so it does not come again before LET_GO_S: whoever is well has extended it by
   then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from services.worker.counts import Counts
from services.worker.presence import Presence
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.engine.pipeline.ownership import Fenced
from shared.errors import NoetlError, Unavailable
from shared.events import subjects
from shared.events.beat import Key, Saying
from shared.events.claim import Claim
from shared.events.command import Command, is_fresh
from shared.events.record import Epoch

RELEASE_S = 1.0
SAID_S = 1.8  # for this long, a claim is announced every half second
LET_GO_S = topology.COMMAND_LEASE_S * 2 / 5  # a holder that is well extends its lease more often than that
SETTLE_S = 0.2  # after an absence: a healthy worker that was given the run meanwhile has claimed it by then


class Run(Protocol):
    """A run, a claim of rows or a local loop on this worker, from its command to its last event."""

    async def run(self) -> None:
        """Raises Fenced if another worker has it or it is over; any return means: acknowledge."""

    async def look(self) -> None:
        """Raises Fenced if the log says that it is no longer ours."""

    async def stopped(self) -> None:
        """Ends it because the scheduler said to stop it."""

    async def give_up(self, error: Exception) -> None:
        """Ends it as failed after an error of the worker itself."""

    async def release(self, why: str) -> None:
        """Says that the lease is handed back on purpose."""

    async def released(self, why: str) -> int | None:
        """How many times in a row it was handed back for this reason; None if nothing of this lease is in the log."""

    def saying(self) -> Iterable[Saying]:
        """What its calls that last have printed last."""

    def pause(self, at: int) -> None:
        """Its execution pauses."""


class Around(Struct, frozen=True):
    """What holds of one worker have in common."""

    bus: Bus
    clock: Clock
    presence: Presence
    pool: str
    worker: str
    pid: int
    counts: Counts = field(default_factory=Counts)


class Hold:
    """`mark` is the number of absences before the command came: while it is the same, nobody else can have the run."""

    def __init__(self, around: Around, command: Command, delivery: Delivery, mark: int, now: float) -> None:
        self._around, self.command, self.delivery, self.mark, self.since = around, command, delivery, mark, now
        self.key: Key = (command.execution_id, command.run_id, command.index)
        self.epoch: Epoch = delivery.epoch
        self.pid = around.pid
        self.run: Run | None = None
        self.task: asyncio.Task[None] | None = None
        self.later: tuple[Command, Delivery, int] | None = None
        self._adopted = command
        self.stopped = self.named = self.doubt = False
        self.fenced: Fenced | None = None
        self._is_ending = False
        self.looked = self._claimed = float("-inf")

    # -- deliveries --------------------------------------------------------------------

    async def take(self, command: Command, delivery: Delivery, mark: int) -> None:
        """Another delivery of the run."""
        if command.since > self.command.since:
            self.later = (command, delivery, mark)
            await delivery.progress()
        elif delivery.epoch < self.delivery.epoch:
            await delivery.ack()  # an old one: nobody needs it, and it would keep out the next command of the run
        else:
            self.delivery, self._adopted, self.named, self.doubt = delivery, replace(command, fresh=False), False, True
            await delivery.progress()

    async def end(self) -> None:
        """Acknowledges the delivery that the run is held by, also if that changes meanwhile."""
        self._is_ending = True
        done: Delivery | None = None
        while done is not self.delivery:
            done = self.delivery
            await done.ack()

    async def hand_back(self, why: str, delay: float = 0.0) -> None:
        """Another worker continues, or this one later. Says so in the log: the lease does not count as lost."""
        self._around.counts.handed_back += 1
        self._is_ending = True
        if self.run is not None:
            with suppress(NoetlError, TimeoutError):
                async with asyncio.timeout(RELEASE_S):
                    await self.run.release(why)
        await self.refuse(delay)

    async def refuse(self, delay: float = 0.0) -> None:
        """Gives back the delivery that the run is held by, also if that changes meanwhile, and the command kept for
        later."""
        self._is_ending = True
        refused: Delivery | None = None
        while refused is not self.delivery or self.later is not None:
            if refused is not self.delivery:
                refused = self.delivery
                await refused.nak(delay)
            elif self.later is not None:
                (_, later, _), self.later = self.later, None
                await later.nak(delay)

    async def lose(self, fenced: Fenced) -> None:
        """Another worker has it or had it, or it is over. An adopted delivery is ours to begin."""
        self._around.counts.lost += 1
        self.fenced, self._is_ending = fenced, True
        if self.is_adopted:
            return
        if fenced.needless:
            await self.end()
        elif fenced.idle:
            await self.delivery.nak(LET_GO_S)

    @property
    def is_adopted(self) -> bool:
        """This worker also has a later lease than the one its records name."""
        return self.delivery.epoch > self.epoch

    def renew(self) -> bool:
        """Prepares what follows the present command: the adopted delivery if the run was fenced, or the command that
        was kept. False if there is nothing."""
        if self.fenced is not None and self.is_adopted and self.later is None:
            self._anew(self._adopted, self.delivery, self._around.presence.absences())
            return True
        if self.later is not None:
            (command, delivery, mark), self.later = self.later, None
            self._anew(command, delivery, mark)
            return True
        return False

    def _anew(self, command: Command, delivery: Delivery, mark: int) -> None:
        self.command, self.delivery, self.mark, self.epoch = command, delivery, mark, delivery.epoch
        self.run, self.fenced, self.stopped, self._is_ending = None, None, False, False

    def let_go(self) -> None:
        """Nothing runs any more. The run and its task refer to the hold: left in a circle, they would all wait for the
        collector, which costs as much as the run did."""
        self.run = self.task = self.fenced = None

    async def progress(self) -> None:
        """Extends the leases of all its deliveries; not confirmed."""
        await self.delivery.progress()
        if self.later is not None:
            await self.later[1].progress()

    # -- words from others -------------------------------------------------------------

    def stop(self) -> bool:
        """False if it was stopped before, or is ending anyway."""
        if self.stopped or self._is_ending:
            return False
        self.stopped = True
        self._cancel()
        return True

    def fence(self, fenced: Fenced) -> None:
        """The log says that it is no longer ours: whatever is under way is cut short."""
        if not self.stopped and not self._is_ending and self.fenced is None:
            self.fenced = fenced
            self._cancel()

    def _cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()

    def pause(self, at: int) -> None:
        if self.run is not None:
            self.run.pause(at)

    # -- whose it is -------------------------------------------------------------------

    def is_fresh(self) -> bool:
        """Nobody else can have held it: its history need not be read. What comes soon after an absence may have lain in
        the socket of this worker since before its lease was over, whatever `mark` says."""
        if not is_fresh(self.command, self.epoch):
            return False
        presence = self._around.presence
        absences = presence.absences()
        return absences == self.mark and not (absences and presence.was_away())

    async def before_claim(self) -> int:
        """Extends the lease, so that it lasts from now on; returns the number of absences now."""
        absences = self._around.presence.absences()
        if absences != self.mark:
            await self.delivery.extend()
        else:
            await self.delivery.progress()
        return absences

    def follows_outage(self) -> bool:
        """Whoever had it before cannot have extended its lease either."""
        return self._around.presence.was_away()

    async def say_claimed(self) -> None:
        """A worker that held it before looks into the log, and stops."""
        self._claimed = asyncio.get_running_loop().time()
        await self._say_claim()

    async def say_claimed_again(self) -> None:
        """For a moment: such a message may get lost, and a worker that does not hear it continues."""
        if asyncio.get_running_loop().time() - self._claimed < SAID_S:
            await self._say_claim()

    async def _say_claim(self) -> None:
        claim = Claim(*self.key, self.epoch, self._around.worker)
        with suppress(NoetlError):  # it may get lost
            await self._around.bus.publish(subjects.claims(self._around.pool), msgspec.json.encode(claim))

    def is_certain(self, looked: int) -> bool:
        """Nothing has happened since the last look because of which another worker could have the run."""
        presence = self._around.presence
        if self.doubt or presence.absences() != looked:
            return False
        return looked == self.mark or not presence.doubts(self.mark)

    async def stay(self, looked: int, known: Callable[[], Awaitable[object]]) -> int:
        """Raises Fenced if another worker has the run since an absence: its tools are not ours to call then. `looked`
        is the number of absences at the last look; the number now is returned."""
        presence = self._around.presence
        absences = presence.absences()
        if absences != looked:
            await self.delivery.extend()
            await self._around.clock.sleep(SETTLE_S)
        elif self.is_certain(looked):
            return looked
        self.doubt = False
        try:
            await known()
        except Unavailable:
            self.doubt = True
            raise
        return absences
