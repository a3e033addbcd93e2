"""Follows a stream in order and without a gap, whatever happens to the connection.

An ephemeral consumer without acks delivers from a sequence on. It is thrown away and made again after
the last message taken when the connection was replaced, its own count shows a gap, its heartbeats stop,
or the broker ends it. Nothing runs in the background: the caller of `batch` drives it.

A message that cannot be taken would be a gap. Whatever its subject and headers hold, it can be; should it ever be
otherwise, that is our mistake, and the follower ends: `batch` gives what came before, then Corrupt.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import structlog

from shared.bus import api
from shared.bus.api_requests import Requests
from shared.bus.nats_py import Subscription
from shared.bus.ports import Message
from shared.bus.pull import SILENCE_S, Backoff, StreamEnd, Waiter, ack_subject, pull_request, unserved
from shared.bus.wire import Connection, pub, status_of, stored_headers, text
from shared.errors import Corrupt, NoetlError, Unavailable

ASK = 256
MAX_BATCH = 512
MAX_HELD = 1024  # no more is asked for while this much waits for the caller
INACTIVE_S = 30.0
log = structlog.get_logger()
_names = count(1)


class StreamFollower:
    def __init__(
        self,
        connection: Connection,
        requests: Requests,
        inbox: str,
        stream: str,
        filters: Sequence[str],
        after: int,
    ) -> None:
        self._connection, self._requests, self._inbox = connection, requests, inbox
        self._stream, self._filters, self._last = stream, list(filters), after
        self._held: deque[Message] = deque()
        self._waiter, self._backoff = Waiter(), Backoff()
        self._name = ""
        self._reply = ""
        self._count = 0
        self._asked = 0
        self._end = StreamEnd(stream)
        self._stale = True
        self._closed = False
        self._ended = False  # by the broker, not by us: rest before asking again
        self._failure: Exception | None = None
        self._subscription: Subscription | None = None

    async def batch(self) -> Sequence[Message]:
        while not self._held:
            await self._go_on()
        take, held = min(len(self._held), MAX_BATCH), self._held
        taken = [held.popleft() for _ in range(take)]
        if not self._stale:
            self._ask()
        return taken

    async def _go_on(self) -> None:
        """Waits for something to happen; opens what has to be opened again."""
        if self._closed:
            raise Unavailable("the follower is closed")
        if self._failure is not None:
            raise Corrupt(f"a message of {self._stream} after {self._last} cannot be taken: {self._failure!r}")
        if self._stale:
            await self._reopen()
        elif not await self._waiter.wait(SILENCE_S):
            self._stale = True

    def disconnected(self) -> None:
        """The next connection does not know what the old one listened to."""
        self._stale = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._connection.forget(subscription)

    def reconnected(self) -> None:
        self._stale = True
        self._waiter.wake()

    async def close(self) -> None:
        self._closed = True
        self._waiter.wake()
        await self._drop()

    async def _reopen(self) -> None:
        if self._ended:
            self._ended = False
            await self._backoff.pause(self._waiter)
        try:
            await self._drop()
            await self._open()
        except Unavailable as error:
            log.warning("follow.retry", stream=self._stream, after=self._last, error=str(error))
            self._ended = True

    async def _open(self) -> None:
        info = await self._requests.api(api.stream_info(self._stream))
        # On a cluster a leader that is new, or was replaced and does not know it, may be behind for a moment.
        self._end.check(info["state"]["last_seq"], self._last, self._connection.is_clustered)
        name = f"f{next(_names)}-{self._inbox.rsplit('.', 1)[-1]}"
        self._reply = f"{self._inbox}.{name}"
        self._count, self._asked = 0, 0
        subscription = await self._connection.route(self._reply, self._arrived)
        self._subscription, self._name = subscription, name
        await self._requests.api(api.consumer_create(self._stream, name), self._config(name), again=True)
        self._stale = False
        self._ask()

    def _config(self, name: str) -> dict[str, object]:
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._last + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "filter_subjects": self._filters,
            "inactive_threshold": int(INACTIVE_S * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        return {"stream_name": self._stream, "config": config, "action": "create"}

    async def _drop(self) -> None:
        """Best effort: a consumer that cannot be deleted now goes away when it is idle."""
        subscription, self._subscription, name, self._name = self._subscription, None, self._name, ""
        if subscription is not None:
            await self._connection.unroute(subscription)
        if name and self._connection.is_connected:
            with suppress(NoetlError):
                await self._requests.api(api.consumer_delete(self._stream, name))

    def _ask(self) -> None:
        """Two requests outstanding, so that one is being served while the other travels."""
        while self._asked <= ASK and len(self._held) + self._asked <= MAX_HELD - ASK:
            self._request(ASK)

    def _request(self, batch: int) -> None:
        subject = api.subject(api.next_message(self._stream, self._name))
        self._connection.write(pub(subject, self._reply, pull_request(batch)))
        self._asked += batch

    def _arrived(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        if self._stale:
            return
        try:
            self._take(subject, reply, header, data) if reply else self._status(header)
        except Exception as error:
            self._stale, self._failure = True, error
            self._waiter.wake()
            raise

    def _take(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        ack = ack_subject(reply)
        if ack is None:
            return  # nobody's delivery: were it one of ours, the next one's count would say so
        self._count += 1
        if ack.consumer_seq != self._count:
            self._stale = True
        else:
            self._backoff.reset()
            self._asked -= 1
            if ack.seq > self._last:  # a consumer on a replica that is behind begins with what that one has
                message = Message(text(subject), data, ack.seq, stored_headers(header), ack.timestamp)
                self._last = ack.seq
                self._held.append(message)
            self._ask()
        self._waiter.wake()

    def _status(self, header: bytes) -> None:
        match status_of(header):
            case 100:
                pass  # a heartbeat: the wake-up below restarts the wait
            case 408:
                self._asked = max(0, self._asked - unserved(header))
                self._ask()
            case _:
                self._stale = self._ended = True
        self._waiter.wake()
