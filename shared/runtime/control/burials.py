"""Dead letters of records that no service can use, written in the background until the broker has them. A record is
handled when its letter is there. Router and scheduler may both meet one: there is one letter about each place. Records
where workers write can be invented, so a pool has a quota of letters; what is beyond it is a line of the service's log,
one letter says so, and `verify` names it."""

from collections.abc import Callable

import structlog

from shared.bus import dead_letters
from shared.bus.ports import Bus, Clock, Message
from shared.errors import NoetlError, Refused, Unavailable
from shared.events import subjects
from shared.runtime.control.letter_quota import Quota
from shared.runtime.service.background import Tasks

log = structlog.get_logger()
MAX_UNDER_WAY = 32  # letters being written; any more wait
ORIGIN = "records"
RETRY_S = 1.0


class Burials:
    def __init__(self, bus: Bus, clock: Clock, stream: str, quota: Quota) -> None:
        self._bus, self._clock, self._stream, self._quota = bus, clock, stream, quota
        self._tasks = Tasks()

    async def room(self) -> None:
        """Returns when one more may be begun."""
        await self._tasks.room(MAX_UNDER_WAY)

    def add(self, message: Message, reason: str, then: Callable[[], None]) -> None:
        log.error("record.refused", stream=self._stream, seq=message.seq, subject=message.subject, reason=reason)
        place = subjects.parse_event(message.subject)
        if place.writer in subjects.LEASED and not self._quota.take(place.pool):
            then()
            self._tasks.start(self._tell_over(place.pool))
            return
        self._tasks.start(self._bury(message, reason, place.pool, then))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _tell_over(self, pool: str) -> None:
        try:
            await self._quota.tell_over(self._bus, pool)
        except NoetlError as error:
            log.warning("letter.left_out", stream=self._stream, error=str(error))

    async def _bury(self, message: Message, reason: str, pool: str, then: Callable[[], None]) -> None:
        place = dead_letters.at_seq(self._stream, message.seq)
        while True:
            try:
                await dead_letters.bury(
                    self._bus, ORIGIN, place, reason, message.data, subject=message.subject, owner=pool)
                break
            except Refused as error:  # a letter that cannot be written must not hold the cursor for ever
                log.error("letter.refused", stream=self._stream, seq=message.seq, error=str(error))
                break
            except Unavailable as error:
                log.warning("letter.waits", stream=self._stream, seq=message.seq, error=str(error))
                await self._clock.sleep(RETRY_S)
        then()
