"""Watches the queue: whether it is still the one that was there before, and whether it lost single commands.

1. *The whole queue.* It is in memory. When the broker restarts, it is gone, and a new one has a new creation time. When
   a whole cluster restarts, the creation time is the old one, but sequences begin again: then the last sequence is
   lower than one this scheduler has seen. Either way everything that the log says is due is issued again.
2. *Except what a live worker holds.* Workers get GRACE_S to connect again and say what they hold; those runs are
   skipped and looked at until their worker reports or is gone. Skipping is an economy: issuing them too would repeat
   calls.
3. *Single commands.* The broker accepts an acknowledgement from a lease that is over, and so removes the command that a
   later lease holds. And a message can be in the queue while its consumer considers it done: it is never delivered, and
   its subject stays occupied (`stranded.py`). So a sweep looks for commands that were due and held by nobody in two
   sweeps in a row. Once would not do: a command that is just being handed over is held by nobody for a moment.
4. *Hearing.* Silence of a worker counts only while this scheduler could have heard it (`_listened`). One that was
   frozen or cut off itself would otherwise take every worker for dead when it wakes.

`due` leaves out what the scheduler itself holds back: it is not lost, only not sent yet.
"""

from collections.abc import Awaitable, Callable, Iterable

import structlog

from services.scheduler.publisher import Publishing
from services.scheduler.reissue import Again
from services.scheduler.stranded import Stranded
from shared.bus import topology
from shared.bus.ports import Bus, Clock, StreamState
from shared.errors import NoetlError, Unavailable
from shared.events.beat import Key
from shared.events.command import Command, key_of
from shared.runtime.stores import heartbeats
from shared.runtime.stores.heartbeats import Unreadable

Held = tuple[str, Key]  # the pool, and which run
log = structlog.get_logger()
WATCH_S = 1.0
RECONNECT_S = 0.1  # nothing goes out before the first look over a new connection
GRACE_S = 2.0  # after a loss, workers get this long to connect again and say what they hold
SWEEP_S = 20.0
MAX_SWEEP = 2000  # commands in one sweep, the oldest first: a healthy queue delivers those first too
MAX_GAP_S = 2 * WATCH_S + 0.5  # between two looks; after a longer gap this scheduler was away itself


class Loss:
    """`looked(seconds)` is called with every look: for how long since the one before this scheduler could hear."""

    def __init__(
        self, bus: Bus, clock: Clock, remake: Callable[[], Awaitable[object]], due: Callable[[], Iterable[Command]],
        publishing: Publishing, again: Again, looked: Callable[[float], None],
    ) -> None:
        self._bus, self._clock, self._remake, self._due = bus, clock, remake, due
        self._publishing, self._again, self._looked = publishing, again, looked
        self._stranded = Stranded(bus, publishing, again)
        self._known: StreamState | None = None
        self._is_lost = self._is_new = False
        self._skipped: set[Held] = set()
        self._idle: set[Held] = set()
        self._unreadable = Unreadable()
        self._swept = clock.now()
        self._heard_at, self._heard_over = clock.now(), 0
        self.count = 0  # of losses of the whole queue

    async def watch(self) -> None:
        while True:
            heard = False
            try:
                heard = await self._look()
            except NoetlError as error:
                log.warning("queue.waits", error=str(error))
            self._looked(self._listened() if heard else 0.0)
            await self._rest()

    async def _rest(self) -> None:
        over, until = self._bus.connections, self._clock.now() + WATCH_S
        while self._bus.connections == over and self._clock.now() < until:
            await self._clock.sleep(min(RECONNECT_S, WATCH_S))

    def _listened(self) -> float:
        """The broker has just answered. If it also did at the last look, over the same connection and not long ago,
        then what it had to say in between was heard, and the time counts; otherwise none of it does (rule 4)."""
        now, over = self._clock.now(), self._bus.connections
        gap = now - self._heard_at if over == self._heard_over else MAX_GAP_S + 1
        self._heard_at, self._heard_over = now, over
        return gap if gap <= MAX_GAP_S else 0.0

    async def _look(self) -> bool:
        over, highest = self._bus.connections, self._highest()
        try:
            state = await self._bus.state(topology.COMMANDS)
        except Unavailable:
            await self._remake()
            state = await self._bus.state(topology.COMMANDS)
        known = self._known
        if known is not None and (state.created != known.created or state.last < highest):
            self._is_lost, self._publishing.highest = True, 0
            self._is_new = self._is_new or state.created != known.created
        self._known = state
        self._publishing.looked(over)
        await self._act()
        return True

    def _highest(self) -> int:
        return max(self._known.last if self._known is not None else 0, self._publishing.highest)

    async def _act(self) -> None:
        if self._is_new:  # in a cluster that restarted, the consumers come back with the queue
            await self._remake()
            self._is_new = False
        if self._is_lost:
            await self._clock.sleep(GRACE_S)
            await self._issue_again()
            self._is_lost = False
        elif self._skipped:
            await self._look_at_skipped()
        elif self._clock.now() - self._swept > SWEEP_S:
            await self._sweep()

    async def _issue_again(self) -> None:
        held = await self._held()
        due = {_of(item): item for item in self._due()}
        self._skipped = held & due.keys()
        lost = [(item, 0) for key, item in due.items() if key not in held]
        count = await self._again.issue(lost)
        self.count += 1
        log.warning("queue.lost", issued_again=count, held_by_workers=len(self._skipped))

    async def _look_at_skipped(self) -> None:
        held = await self._held()
        due = {_of(item): item for item in self._due()}
        gone = [(item, 0) for key, item in due.items() if key in self._skipped and key not in held]
        if gone:
            log.warning("worker.gone", issued_again=await self._again.issue(gone))
        self._skipped = {key for key in self._skipped if key in due and key in held}

    async def _sweep(self) -> None:
        held = await self._held()
        due = {key: item for item in self._due() if (key := _of(item)) not in held}
        lost = [item for key, item in due.items() if key in self._idle][:MAX_SWEEP]
        self._idle, self._swept = set(due), self._clock.now()
        await self._stranded.look(lost)

    async def _held(self) -> set[Held]:
        """What live workers say they hold, with their own pool: a worker cannot hold what belongs to another pool."""
        found = await heartbeats.read_all(self._bus, self._unreadable)
        return {(beat.pool, key) for beat in found.values() for key in beat.held}


def _of(command: Command) -> Held:
    return command.pool, key_of(command)
