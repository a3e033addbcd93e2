"""What every puller shares: the ack subject, the accounting of what was asked for, the wait."""

import asyncio
from asyncio import Future

import msgspec
from msgspec import Struct

from shared.bus.wire import number, parse_headers
from shared.errors import Corrupt, Unavailable
from shared.events.headers import PENDING_MESSAGES

EXPIRES_S = 10.0  # for this long a request of a connection that went silent still receives messages
# A node of a cluster that is lost takes the consumers it led with it, and whoever is connected to another one hears
# nothing of that: it is these that count then. Over the 4 s in which a new leader is found at the soonest.
HEARTBEAT_S = 2.0
SILENCE_S = 2.5 * HEARTBEAT_S  # two heartbeats missed: the request is lost
BACKOFF_S = 0.05
MAX_BACKOFF_S = 1.0
# With the backoff some 26 s: a leader that was stopped, and has lost its quorum meanwhile, may take itself for the
# leader for 20 s when it continues, and says what it knew before.
BEHIND_TRIES = 30


class AckSubject(Struct, frozen=True, gc=False):
    """`$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<ts>.<pending>`"""

    delivered: int
    seq: int
    consumer_seq: int
    timestamp: int
    pending: int  # what the consumer had left to deliver


def ack_subject(reply: bytes) -> AckSubject | None:
    """None: it is no such subject, so the message is not from a consumer."""
    parts = reply.split(b".")
    at = 4 if len(parts) == 9 else 6  # the longer form adds domain and account before the stream
    try:
        return AckSubject(*map(int, parts[at : at + 5]))
    except (TypeError, ValueError):  # too few parts, or no numbers
        return None


def pull_request(batch: int) -> bytes:
    return msgspec.json.encode(
        {"batch": batch, "expires": int(EXPIRES_S * 1e9), "idle_heartbeat": int(HEARTBEAT_S * 1e9)}
    )


def unserved(header: bytes) -> int:
    """How many messages of an ended pull request will not come."""
    return number((parse_headers(header) or {}).get(PENDING_MESSAGES, ""))


class Waiter:
    """One coroutine waits, a handler wakes it. A wake-up before the wait is not lost."""

    def __init__(self) -> None:
        self._future: Future[None] | None = None
        self._woken = False

    def wake(self) -> None:
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """False when nothing woke it in time."""
        if not self._woken:
            self._future = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await self._future
            except TimeoutError:
                return False
            finally:
                self._future = None
        self._woken = False
        return True


class Backoff:
    def __init__(self) -> None:
        self._next = BACKOFF_S

    def reset(self) -> None:
        self._next = BACKOFF_S

    async def pause(self, waiter: Waiter) -> None:
        """Waits longer each time; a wake-up (a reconnect) ends it early."""
        await waiter.wait(self._next)
        self._next = min(2 * self._next, MAX_BACKOFF_S)


class StreamEnd:
    """Whether a stream ends where it can end, for who follows it. A replica may be behind for a moment."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._behind = 0  # times in a row that it ended before what was read

    def check(self, end: int, read: int, clustered: bool) -> None:
        self._behind = self._behind + 1 if end < read else 0
        text = f"{self._stream} holds up to {end}, {read} was read already"
        if self._behind > (BEHIND_TRIES if clustered else 0):
            raise Corrupt(f"the stream ends before the cursor: {text}; it was rolled back or replaced")
        if self._behind:
            raise Unavailable(text)
