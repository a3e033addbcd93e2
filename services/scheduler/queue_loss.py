"""Looks after the queue as a whole: whether it is still the one that was there before, and whether it lost single
commands.

The queue is in memory. When the broker restarts it is gone, and its creation time is new; when a whole cluster does,
the time is the old one, but the sequences begin anew. Then every command that the log says is due is issued again,
except those a live worker still holds. A run skipped for that reason is looked at until its worker reports or is gone.

Single commands get lost too. The queue takes an acknowledgement from a lease that is over, and with it goes the
command that a later lease holds. And a message can be in the queue while its consumer takes it for done, if someone
purged by subject: it never comes again, and its subject is taken. So a sweep looks for what was due and held by
nobody twice in a row. `due` is without what the scheduler itself holds back.
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
MAX_SWEEP = 2000  # commands; the oldest first, and a queue in order gets to the oldest first too
MAX_GAP_S = 2 * WATCH_S + 0.5  # between two looks: longer, and this scheduler was away itself


class Loss:
    """`looked(seconds)` is called with every look; for so long since the one before, this scheduler could hear."""

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
        """The broker has just answered, and so it did at the last look, over the same connection and not long ago:
        what it had to say in between was heard. A scheduler that was frozen or cut off takes nobody for dead."""
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
        """By the pool of who says so: a worker cannot hold what is another pool's."""
        found = await heartbeats.read_all(self._bus, self._unreadable)
        return {(beat.pool, key) for beat in found.values() for key in beat.held}


def _of(command: Command) -> Held:
    return command.pool, key_of(command)
