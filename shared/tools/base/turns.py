"""Turns at a kind of tool that can make only so many calls at a time. Whoever waits for one has not begun: a line that
does not move is no place to wait, because another worker may have room."""

import asyncio
from collections import deque
from collections.abc import Callable

from shared.errors import Signal
from shared.events.beat import Busy, Calling

HAND_BACK_S = 1.0   # in line for a turn, before the run goes back into the queue
AT_ONCE = 64        # runs a second that are sent away without having waited in line
MAX_TOLD = 16       # calls under way that are named


class NoTurn(Signal):
    """All turns are in use, and none will be free soon."""


def in_a_hurry() -> bool:
    return False


class Turns:
    """Whoever gives a turn back gives it to the first in line."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size = kind, size
        self._taken, self._number = 0, 0
        self._calls: dict[int, Calling] = {}
        self._line: deque[asyncio.Future[None]] = deque()
        self._given = float("-inf")
        self._sent_away: deque[float] = deque(maxlen=AT_ONCE)

    def busy(self) -> Busy:
        return Busy(self.kind, self.size, self._taken, len(self._line), list(self._calls.values())[:MAX_TOLD])

    async def take(
        self, about: Callable[[], Calling], *, patient: Callable[[], bool] = in_a_hurry, first: bool = False
    ) -> int:
        """The number of a turn, which `leave` gives back; `about` says of what, once it is taken. Raises NoTurn, unless
        `patient` says at that moment to stay. `first`: one that has waited in line before goes to its head."""
        loop = asyncio.get_running_loop()
        if self._taken < self.size:
            self._taken += 1
        else:
            await self._stand(loop, patient=patient, first=first)
        self._number += 1
        self._given = loop.time()
        self._calls[self._number] = about()
        return self._number

    def leave(self, number: int) -> None:
        del self._calls[number]
        self._pass_on()

    def _pass_on(self) -> None:
        if self._line:
            self._line.popleft().set_result(None)
        else:
            self._taken -= 1

    async def _stand(
        self, loop: asyncio.AbstractEventLoop, *, patient: Callable[[], bool], first: bool
    ) -> None:
        if not patient() and loop.time() - self._given > HAND_BACK_S and self._may_send_away(loop.time()):
            raise NoTurn
        turn: asyncio.Future[None] = loop.create_future()
        (self._line.appendleft if first else self._line.append)(turn)
        try:
            while not turn.done():
                given = self._number
                await asyncio.wait({turn}, timeout=HAND_BACK_S)
                if not turn.done() and self._number - given <= self._line.index(turn) and not patient():
                    raise NoTurn  # at this pace it does not come within as much time again
        except BaseException:
            if turn.done():
                self._pass_on()
            else:
                self._line.remove(turn)
            raise

    def _may_send_away(self, now: float) -> bool:
        if len(self._sent_away) == AT_ONCE and now - self._sent_away[0] < 1.0:
            return False
        self._sent_away.append(now)
        return True
