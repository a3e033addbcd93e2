"""A run that this worker holds: the delivery it is held by, what it runs as, and whether it is still ours.

The command of a run that is held may come again: its lease was lost and this worker was given the next one, or a
scheduler took the worker for dead. The run goes on, and the new delivery takes the place of the old one for
acknowledgements and extensions (it is *adopted*). Records keep the epoch of the first one: nobody else can have claimed
a higher one, unless the log shows it; if it does, the run ends here, and the adopted delivery is begun like any other.
The command that comes after a wait is not the same: it is kept until the present one has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from services.worker.presence import Presence
from shared.bus.ports import Bus, Clock, Delivery
from shared.engine.pipeline.ownership import Fenced
from shared.errors import NoetlError, Unavailable
from shared.events import subjects
from shared.events.beat import Key
from shared.events.claim import Claim
from shared.events.command import Command, is_fresh
from shared.events.record import Epoch

RELEASE_S = 1.0
SAID_S = 1.8  # a claim is said every half second for so long
SETTLE_S = 0.2  # after an absence: whoever was given the run meanwhile has claimed it by then, if it is well


class Run(Protocol):
    """A run, a frame's claim or a local loop, on this worker, from its command to its last word."""

    async def run(self) -> None:
        """Raises Fenced when it is someone else's or over; any return means: acknowledge."""

    async def look(self) -> None:
        """Raises Fenced when the log says that it is not ours any more."""

    async def stopped(self) -> None:
        """Ends it because it was told to stop."""

    async def give_up(self, error: Exception) -> None:
        """Ends it as failed after an error of the worker itself."""

    async def release(self, why: str) -> None:
        """Says that the lease is handed back on purpose."""

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


class Hold:
    """`mark` is what `absences` said before the command came: since then nobody else can have the run, unless it
    says more."""

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
            await delivery.ack()  # an old one: nobody needs it
        else:
            self.delivery, self._adopted, self.named, self.doubt = delivery, replace(command, fresh=False), False, True
            await delivery.progress()

    async def end(self) -> None:
        """Acknowledges what the run is held by, also if that changes meanwhile."""
        self._is_ending = True
        done: Delivery | None = None
        while done is not self.delivery:
            done = self.delivery
            await done.ack()

    async def hand_back(self, why: str, delay: float = 0.0) -> None:
        """Another worker goes on, or this one later; the lease was not lost."""
        self._is_ending = True
        if self.run is not None:
            with suppress(NoetlError, TimeoutError):
                async with asyncio.timeout(RELEASE_S):
                    await self.run.release(why)
        await self.refuse(delay)

    async def refuse(self, delay: float = 0.0) -> None:
        """Gives back what the run is held by, also if that changes meanwhile, and what comes after it."""
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
        """It is another's, or over. An adopted delivery is ours to begin."""
        self.fenced, self._is_ending = fenced, True
        if fenced.needless and not self.is_adopted:
            await self.end()

    @property
    def is_adopted(self) -> bool:
        """A later lease than that of the records is ours as well."""
        return self.delivery.epoch > self.epoch

    def renew(self) -> bool:
        """What comes after the present command has ended: the adopted delivery if it ended as another's, or the command
        that was kept. False when there is nothing."""
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

    async def progress(self) -> None:
        """Extends everything of it; not confirmed."""
        await self.delivery.progress()
        if self.later is not None:
            await self.later[1].progress()

    # -- words from others -------------------------------------------------------------

    def stop(self) -> bool:
        """False when it was told before, or is ending anyway."""
        if self.stopped or self._is_ending:
            return False
        self.stopped = True
        self._cancel()
        return True

    def fence(self, fenced: Fenced) -> None:
        """The log says that it is not ours any more: whatever is under way is cut short."""
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
        """Nobody else can have had it: its history need not be read."""
        return is_fresh(self.command, self.epoch) and self._around.presence.absences() == self.mark

    async def before_claim(self) -> int:
        """The lease lasts from here on; what `absences` says now."""
        absences = self._around.presence.absences()
        if absences != self.mark:
            await self.delivery.extend()
        else:
            await self.delivery.progress()
        return absences

    async def say_claimed(self) -> None:
        """Whoever held it before looks into the log, and stops."""
        self._claimed = asyncio.get_running_loop().time()
        await self._say_claim()

    async def say_claimed_again(self) -> None:
        """For a moment: a word may get lost, and whoever does not hear it goes on."""
        if asyncio.get_running_loop().time() - self._claimed < SAID_S:
            await self._say_claim()

    async def _say_claim(self) -> None:
        claim = Claim(*self.key, self.epoch, self._around.worker)
        with suppress(NoetlError):  # it may get lost
            await self._around.bus.publish(subjects.claims(self._around.pool), msgspec.json.encode(claim))

    async def stay(self, looked: int, known: Callable[[], Awaitable[object]]) -> int:
        """After an absence another worker may have the run: then its tools are not ours to call. `looked` is what
        `absences` said at the last look, and what it says now is returned."""
        presence = self._around.presence
        absences = presence.absences()
        if absences != looked:
            await self.delivery.extend()
            await self._around.clock.sleep(SETTLE_S)
        elif not self.doubt and not presence.doubts(self.mark):
            return looked
        self.doubt = False
        try:
            await known()
        except Unavailable:
            self.doubt = True
            raise
        return absences
