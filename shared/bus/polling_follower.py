"""Follows a stream by reading it: no consumer is made, so that whoever may do this can have nothing sent to others.

For readers that may lag: what has come is read when `batch` is called, and looked for now and then while there is
nothing. A replica that is behind shows less for a moment, never with holes.
"""

from collections.abc import Sequence

import structlog

from shared.bus.direct_reader import Reader
from shared.bus.ports import Message
from shared.bus.pull import Backoff, StreamEnd, Waiter
from shared.bus.replicas import cover
from shared.bus.subject import matches
from shared.bus.wire import Connection
from shared.errors import Unavailable

MAX_HELD = 1024
SOON_S, IDLE_S = 0.05, 0.4  # between looks: twice as long after each that found nothing
log = structlog.get_logger()


class LaggingFollower:
    def __init__(
        self, connection: Connection, reader: Reader, stream: str, filters: Sequence[str], after: int
    ) -> None:
        self._connection, self._reader, self._stream, self._filters = connection, reader, stream, filters
        self._subject = filters[0] if len(filters) == 1 else cover(filters)
        self._last = after
        self._waiter, self._backoff = Waiter(), Backoff()
        self._rest = SOON_S
        self._end = StreamEnd(stream)
        self._closed = False

    async def batch(self) -> Sequence[Message]:
        while True:
            if self._closed:
                raise Unavailable("the follower is closed")
            try:
                found = await self._read()
                self._backoff.reset()
            except Unavailable as error:
                log.warning("follow.retry", stream=self._stream, after=self._last, error=str(error))
                await self._backoff.pause(self._waiter)
                continue
            if found:
                self._rest = SOON_S
                return found
            await self._waiter.wait(self._rest)
            self._rest = min(2 * self._rest, IDLE_S)

    async def _read(self) -> list[Message]:
        newest = await self._reader.last(self._stream, ">")
        end = 0 if newest is None else newest.seq
        # On a cluster any replica may have answered, and be behind for a moment.
        self._end.check(end, self._last, self._connection.is_clustered)
        found, last, pending = list[Message](), self._last, 1
        while pending and last < end and len(found) < MAX_HELD:
            page, pending = await self._reader.page(self._stream, self._subject, last, MAX_HELD - len(found))
            last = page[-1].seq if page else last
            found += [message for message in page if any(matches(f, message.subject) for f in self._filters)]
        self._last = last  # when all is there: what was read before a page that did not come is read again
        return found

    def disconnected(self) -> None:
        """A request that was under way has been answered."""

    def reconnected(self) -> None:
        self._waiter.wake()

    async def close(self) -> None:
        self._closed = True
        self._waiter.wake()
