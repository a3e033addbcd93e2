"""Takes messages from a durable work-queue consumer under leases.

What is asked for is what the caller of `batch` says it can hold, because the lease of a delivered
message is already running. Only a caller that gets through its messages quickly is served ahead: up to
`prefetch`, and no more than it finished in the last moment. The durable may be missing for a while (a
memory queue is gone after a server restart, until a scheduler makes it again): asking continues with a
short backoff.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from shared.bus import api
from shared.bus.nats_py import Error, Subscription
from shared.bus.pull import SILENCE_S, AckSubject, Backoff, Waiter, ack_subject, pull_request, unserved
from shared.bus.wire import Connection, pub, status_of, stored_headers, text
from shared.errors import Unavailable

AHEAD_S = 0.1  # the moment that decides how far ahead to ask
HOLD_S = 0.5  # a message fetched and not begun within this time is handed back: another worker may be free
STALE_S = 5.0  # one that could not be handed back in time is forgotten: its lease may be another's
KEPT_S = 10.0  # the same of one that is kept: within this time its lease is not over
EXTEND_S = 2.0  # for the answer to an extension
_ACK, _PROGRESS = b"+ACK", b"+WPI"


class Held:
    """A delivery. Acks are not confirmed: they are a hint, and fencing happens in the log."""

    __slots__ = ("_connection", "_header", "_reply", "arrived", "data", "epoch", "seq", "subject")

    def __init__(
        self, connection: Connection, ack: AckSubject, subject: str, reply: str, header: bytes, data: bytes,
        arrived: float,
    ) -> None:
        self._connection, self._reply, self._header = connection, reply, header
        self.subject, self.data, self.arrived = subject, data, arrived
        self.seq: int = ack.seq
        self.epoch: tuple[int, int] = (ack.timestamp, ack.delivered)

    @property
    def headers(self) -> dict[str, str] | None:
        return stored_headers(self._header)

    async def ack(self) -> None:
        self._answer(_ACK)

    async def nak(self, delay: float = 0.0) -> None:
        self.give_back(delay)

    async def progress(self) -> None:
        self._answer(_PROGRESS)

    async def extend(self) -> None:
        """The server answers whoever asks, also when it has given the message to another."""
        try:
            await self._connection.request(self._reply, _PROGRESS, timeout=EXTEND_S)
        except (Error, TimeoutError, OSError) as error:
            raise Unavailable(f"the lease on {self.subject} was not extended: {error!r}") from None

    def give_back(self, delay: float = 0.0) -> None:
        self._answer(b"-NAK " + msgspec.json.encode({"delay": int(delay * 1e9)}) if delay > 0 else b"-NAK")

    def _answer(self, text: bytes) -> None:
        """While disconnected the answer is dropped: the lease expires and the message comes again."""
        if self._connection.is_connected:
            self._connection.write(pub(self._reply, "", text))


class Pace:
    """How far ahead to ask: as many as the caller got done in the last AHEAD_S, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room: int | None = None
        self._since = float("-inf")
        self._done = self._done_before = 0

    def ahead(self, room: int, now: float) -> int:
        """`room` is what the caller can hold now; what it has gained since the last take is done."""
        if now - self._since > AHEAD_S:
            self._done_before = self._done if now - self._since < 2 * AHEAD_S else 0
            self._done, self._since = 0, now
        if self._room is not None:
            self._done += max(0, room - self._room)
        self._room = room
        return min(self._limit, max(self._done, self._done_before))

    def took(self, room: int, count: int) -> None:
        self._room = room - count


class QueueConsumer:
    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        stream: str,
        durable: str,
        prefetch: int,
        keep: bool = False,
    ) -> None:
        self._connection, self._clock, self._inbox = connection, clock, ""
        self._next = api.subject(api.next_message(stream, durable))
        self._held: deque[Held] = deque()
        self._waiter, self._backoff = Waiter(), Backoff()
        self._generation = 0
        self._asked = 0
        self._pace, self._keeps = Pace(prefetch), keep
        self._called = 0.0
        self._tidying: asyncio.TimerHandle | None = None
        self._ended = False
        self._closed = False
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        await self._listen()

    async def _listen(self) -> None:
        """An inbox for each connection. Under the same one, requests of a connection that broke would continue at the
        broker, and what it gives them is lost until its lease is over."""
        if self._subscription is None and self._connection.is_connected:
            self._inbox = self._connection.new_inbox()
            self._subscription = await self._connection.route(f"{self._inbox}.*", self._arrived)

    async def batch(self, limit: int) -> Sequence[Held]:
        assert limit > 0, "ask for at least one"
        self._called = now = self._clock()
        while self._held and self._held[0].arrived < now - (KEPT_S if self._keeps else STALE_S):
            self._held.popleft()
        room = limit + self._pace.ahead(limit, now)
        while not self._held:
            if self._closed:
                raise Unavailable("the consumer is closed")
            if self._ended:
                self._ended = False
                await self._backoff.pause(self._waiter)
            await self._listen()
            self._ask(room)
            if not await self._waiter.wait(SILENCE_S):
                self._forget_requests()
        taken = [self._held.popleft() for _ in range(min(limit, len(self._held)))]
        self._pace.took(limit, len(taken))
        self._called = self._clock()
        self._ask(room - len(taken))
        self._tidy_later()
        return taken

    def disconnected(self) -> None:
        """Before there is another connection, which does not know of the old inbox."""
        self._forget_requests()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._connection.forget(subscription)

    def reconnected(self) -> None:
        self._waiter.wake()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._subscription is not None:
            await self._connection.unroute(self._subscription, finish=True)
        if self._tidying is not None:
            self._tidying.cancel()
        self._hand_back()
        self._waiter.wake()

    def _hand_back(self) -> None:
        while self._held:
            self._held.popleft().give_back()

    def _tidy_later(self) -> None:
        if self._tidying is None and self._held and not self._keeps:
            self._tidying = asyncio.get_running_loop().call_later(HOLD_S, self._tidy)

    def _tidy(self) -> None:
        """The caller has not come back: all its slots are busy with something long."""
        self._tidying = None
        if self._clock() - self._called >= HOLD_S:
            self._hand_back()
        self._tidy_later()

    def _forget_requests(self) -> None:
        """Each generation has its own reply subject, so that an old request's end is not counted."""
        self._generation += 1
        self._asked = 0

    def _ask(self, room: int) -> None:
        """Asks for what fits, in halves: a request per message would double the traffic."""
        in_hand = self._asked + len(self._held)
        free = room - in_hand
        if free > 0 and (2 * free >= room or not in_hand) and self._subscription is not None:
            self._connection.write(pub(self._next, f"{self._inbox}.{self._generation}", pull_request(free)))
            self._asked += free

    def _arrived(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        if reply:
            ack = ack_subject(reply)
            if ack is None:
                return  # not from the queue
            self._backoff.reset()
            self._asked = max(0, self._asked - 1)
            now = self._clock()
            self._held.append(Held(self._connection, ack, text(subject), text(reply), header, data, now))
            self._tidy_later()
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
