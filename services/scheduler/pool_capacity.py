"""What the workers of each pool say they have room for, heard from their beats as they come."""

from collections.abc import Callable

import msgspec
import structlog
from msgspec import Struct

from shared.bus import kv, topology
from shared.bus.ports import Bus, Clock, Message
from shared.events.beat import Beat

log = structlog.get_logger()
UNKNOWN_SLOTS = 64  # of a pool from which nothing was heard yet
FIRSTS = 4  # commands under way for every slot of the pool, each the only one of its execution


class Heard(Struct, frozen=True):
    pool: str
    slots: int
    room: int
    at: float


class Rooms:
    """`share` is the part of all executions that this scheduler looks after."""

    def __init__(self, bus: Bus, clock: Clock, share: Callable[[], float], changed: Callable[[], None]) -> None:
        self._bus, self._clock, self._share, self._changed = bus, clock, share, changed
        self._heard: dict[str, Heard] = {}

    def room(self, pool: str) -> int:
        """Commands beyond the first of each execution."""
        known = self._of(pool)
        return self._part(sum(heard.room for heard in known) if known else UNKNOWN_SLOTS)

    def most(self, pool: str) -> int:
        known = self._of(pool)
        return self._part(FIRSTS * (sum(heard.slots for heard in known) if known else UNKNOWN_SLOTS))

    def _of(self, pool: str) -> list[Heard]:
        return [heard for heard in self._heard.values() if heard.pool == pool]

    def _part(self, whole: int) -> int:
        return max(1, round(whole * self._share()))

    async def run(self) -> None:
        """Listens for ever; cancel to stop."""
        inbox = await self._bus.subscribe(kv.changes_of(topology.WORKERS))
        try:
            while True:
                self._take(await inbox.message())
        finally:
            await inbox.close()

    def forget_silent(self) -> None:
        oldest = self._clock.now() - topology.WORKER_TTL_S
        self._heard = {key: heard for key, heard in self._heard.items() if heard.at > oldest}

    def _take(self, message: Message) -> None:
        if kv.is_deleted(message.headers) or not message.data:
            self._heard.pop(message.subject, None)
            return
        try:
            beat = msgspec.json.decode(message.data, type=Beat)
        except msgspec.MsgspecError as error:
            log.warning("beat.unreadable", subject=message.subject, error=str(error))
            return
        if beat.draining:  # it takes nothing any more
            self._heard.pop(message.subject, None)
            return
        known = self._heard.get(message.subject)
        room = beat.room or beat.slots
        self._heard[message.subject] = Heard(beat.pool, beat.slots, room, self._clock.now())
        if known is None or known.room != room:
            self._changed()
