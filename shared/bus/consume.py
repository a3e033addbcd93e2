"""Takes messages from a durable work-queue consumer under leases.

What is asked for never exceeds what the caller of `batch` said it can hold, because the lease of a
delivered message is already running. The durable may be missing for a while (a memory queue is gone
after a server restart, until a scheduler makes it again): asking goes on with a short backoff.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec
from nats.aio.subscription import Subscription

from shared.bus.pull import SILENCE_S, Backoff, Waiter, place_of, pull_request, unserved
from shared.bus.wire import Connection, pub, status_of, stored_headers
from shared.errors import Unavailable

HOLD_S = 5.0  # a message fetched and not taken for so long is handed back: another worker may be free
_ACK, _PROGRESS = b"+ACK", b"+WPI"


class Held:
    """A delivery. Acks are not confirmed: they are a hint, and fencing happens in the log."""

    __slots__ = ("_connection", "_header", "_reply", "arrived", "data", "epoch", "seq", "subject")

    def __init__(
        self, connection: Connection, subject: str, reply: bytes, header: bytes, data: bytes, arrived: float
    ) -> None:
        place = place_of(reply)
        self._connection, self._reply, self._header = connection, reply.decode(), header
        self.subject, self.data, self.arrived = subject, data, arrived
        self.seq: int = place.seq
        self.epoch: tuple[int, int] = (place.timestamp, place.delivered)

    @property
    def headers(self) -> dict[str, str] | None:
        return stored_headers(self._header)

    async def ack(self) -> None:
        self._answer(_ACK)

    async def nak(self, delay: float = 0.0) -> None:
        self.give_back(delay)

    async def progress(self) -> None:
        self._answer(_PROGRESS)

    def give_back(self, delay: float = 0.0) -> None:
        self._answer(b"-NAK " + msgspec.json.encode({"delay": int(delay * 1e9)}) if delay > 0 else b"-NAK")

    def _answer(self, text: bytes) -> None:
        """While disconnected the answer is dropped: the lease expires and the message comes again."""
        if self._connection.is_connected:
            self._connection.write(pub(self._reply, "", text))


class QueueConsumer:
    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        inbox: str,
        stream: str,
        durable: str,
        prefetch: int,
    ) -> None:
        self._connection, self._clock, self._inbox = connection, clock, inbox
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._prefetch = prefetch
        self._held: deque[Held] = deque()
        self._waiter, self._backoff = Waiter(), Backoff()
        self._generation = 0
        self._asked = 0
        self._ended = False
        self._closed = False
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        self._subscription = await self._connection.route(f"{self._inbox}.*", self._arrived)

    async def batch(self, limit: int) -> Sequence[Held]:
        assert limit > 0, "ask for at least one"
        self._hand_back(before=self._clock() - HOLD_S)
        while not self._held:
            if self._closed:
                raise Unavailable("the consumer is closed")
            if self._ended:
                self._ended = False
                await self._backoff.pause(self._waiter)
            self._ask(limit)
            if not await self._waiter.wait(SILENCE_S):
                self._forget_requests()
        taken = [self._held.popleft() for _ in range(min(limit, len(self._held)))]
        self._ask(limit - len(taken))
        return taken

    def reconnected(self) -> None:
        """A reconnect drops the requests that were waiting at the broker."""
        self._forget_requests()
        self._waiter.wake()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._subscription is not None:
            await self._connection.unroute(self._subscription)
        self._hand_back(before=float("inf"))
        self._waiter.wake()

    def _hand_back(self, before: float) -> None:
        while self._held and self._held[0].arrived < before:
            self._held.popleft().give_back()

    def _forget_requests(self) -> None:
        """Each generation has its own reply subject, so that an old request's end is not counted."""
        self._generation += 1
        self._asked = 0

    def _ask(self, room: int) -> None:
        """Asks for what fits, in halves: a request per message would double the traffic."""
        limit = min(room, self._prefetch)
        free = limit - self._asked - len(self._held)
        if free > 0 and (free >= limit / 2 or self._asked == 0) and self._connection.is_connected:
            self._connection.write(pub(self._next, f"{self._inbox}.{self._generation}", pull_request(free)))
            self._asked += free

    def _arrived(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        if reply:
            self._backoff.reset()
            self._asked = max(0, self._asked - 1)
            self._held.append(Held(self._connection, subject.decode(), reply, header, data, self._clock()))
            self._waiter.wake()
        elif subject.endswith(b".%d" % self._generation):
            self._status(header)

    def _status(self, header: bytes) -> None:
        match status_of(header):
            case 100:
                pass
            case 408:
                self._asked = max(0, self._asked - unserved(header))
            case _:
                self._forget_requests()
                self._ended = True
        self._waiter.wake()
