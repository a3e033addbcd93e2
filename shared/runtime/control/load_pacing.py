"""How many executions a service loads from the log at the same time.

A service that comes back may have tens of thousands to load. Asked for all at once, the broker answers none of them in
time, and all are asked for again. So a load waits for a permit first. There are few permits, and fewer when the broker
does not answer: half as many after each failure, one more after each load that went well. Executions with new records
go before those that are only known to be live, but every fourth permit goes to the latter.
"""

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.errors import Unavailable
from shared.runtime.stores.results import ValueMissing

MOST = 48
FEWEST = 4
OLD_EVERY = 4
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
Lane = OrderedDict[str, "asyncio.Future[None]"]


def pause_s(execution_id: str, tries: int) -> float:
    """The pause before the next try, after this many that failed. Between half and all of the step, differently for
    each execution: those that failed together must not come again together."""
    step = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
    return step * (0.5 + zlib.crc32(f"{execution_id}/{tries}".encode()) / 2**33)


class Loads:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.places = most
        self.taken = 0
        self._news: Lane = OrderedDict()
        self._old: Lane = OrderedDict()
        self._turns = 0

    @property
    def waiting(self) -> int:
        return len(self._news) + len(self._old)

    @asynccontextmanager
    async def place(self, execution_id: str, *, news: bool) -> AsyncIterator[None]:
        """Held while the block runs; what it raises says how the broker is doing."""
        await self._enter(execution_id, news)
        try:
            yield
        except ValueMissing:
            raise  # the broker did answer
        except Unavailable:
            self.places = max(min(FEWEST, self._most), self.places // 2)
            raise
        else:
            self.places = min(self._most, self.places + 1)
        finally:
            self._leave()

    def hurry(self, execution_id: str) -> None:
        """It has new records now."""
        waiting = self._old.pop(execution_id, None)
        if waiting is not None:
            self._news[execution_id] = waiting

    async def _enter(self, execution_id: str, news: bool) -> None:
        if self.taken < self.places and not self.waiting:
            self.taken += 1
            return
        lane = self._news if news else self._old
        assert execution_id not in lane, "an execution is loaded once at a time"
        turn = lane[execution_id] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            self._news.pop(execution_id, None)
            self._old.pop(execution_id, None)
            if turn.done() and not turn.cancelled():
                self._leave()  # it was given a permit and will not use it
            raise

    def _leave(self) -> None:
        self.taken -= 1
        while self.taken < self.places and self.waiting:
            self._next().set_result(None)
            self.taken += 1

    def _next(self) -> "asyncio.Future[None]":
        self._turns += 1
        old_first = self._turns % OLD_EVERY == 0
        lane = self._old if self._old and (old_first or not self._news) else self._news
        return lane.popitem(last=False)[1]
