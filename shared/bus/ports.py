"""What the services ask of a broker. `jetstream.py` and `memory.py` both keep these promises, and
`tests/contract` holds them to it.

The log: `append` with an expected sequence is the only way a decision becomes true. `follow`
delivers every matching record after a sequence, in order and without a gap, whatever happens to
the connection. Where a reader had got to is kept as a `cursor`, moved only after what it covers
is in the log.
The queue: at least once, held by a lease, at most one message per subject.
"""

from asyncio import Future
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Message(Struct, frozen=True, gc=False):
    """A stored message. `seq` is its sequence in the stream."""

    subject: str
    data: bytes
    seq: int
    headers: dict[str, str] | None = None


class Delivery(Protocol):
    """A queue message held under a lease until acknowledged or expired."""

    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def headers(self) -> dict[str, str] | None: ...
    @property
    def seq(self) -> int: ...
    @property
    def epoch(self) -> tuple[int, int]:
        """(broker timestamp in ns, delivery count): grows with every later hold."""

    async def ack(self) -> None: ...
    async def nak(self, delay: float = 0.0) -> None: ...
    async def progress(self) -> None:
        """Extends the lease."""


class Follower(Protocol):
    async def batch(self) -> Sequence[Message]:
        """Waits for at least one message; returns all that have arrived (bounded)."""

    async def close(self) -> None: ...


class Consumer(Protocol):
    async def batch(self, limit: int) -> Sequence[Delivery]:
        """Waits for at least one delivery; returns up to `limit`."""

    async def close(self) -> None:
        """Stops asking; hands back (naks) what was fetched and not taken."""


class Entry(Struct, frozen=True, gc=False):
    value: bytes
    revision: int


class Bus(Protocol):
    async def send(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> "Future[int]":
        """Hands a message to the broker in order. The future gives its sequence, or raises Conflict
        (`expected` is not the subject's last sequence), Duplicate (write-once subject), Refused,
        Unavailable (not stored), or Unknown (no answer in time: it may have been stored)."""

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        """`send`, waited for."""

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> Follower:
        """Every message of `filters` with a sequence over `after`, in order, then what comes. `lazy`
        leaves them at the broker until `batch` is called."""

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        """What the stream holds now, in order."""

    async def get(self, stream: str, subject: str) -> Message | None:
        """The last message of a subject."""

    async def last_seq(self, stream: str) -> int: ...

    async def consume(self, stream: str, durable: str, prefetch: int) -> Consumer: ...

    async def created(self, stream: str) -> int:
        """When the stream was made, in ns; raises Unavailable when it is not there."""

    async def purge(self, stream: str, subject: str) -> None:
        """Every message of the subject (wildcards allowed) leaves the stream, held ones too."""

    async def kv_get(self, bucket: str, key: str) -> Entry | None: ...

    async def kv_put(self, bucket: str, key: str, value: bytes, *, expected: int | None = None) -> int:
        """`expected` 0 creates; another revision compares and sets; Conflict otherwise."""

    async def kv_delete(self, bucket: str, key: str) -> None: ...

    async def kv_all(self, bucket: str) -> dict[str, bytes]: ...

    async def publish(self, subject: str, data: bytes) -> None:
        """At most once, not stored: heartbeats and replies."""

    async def subscribe(self, subject: str) -> "Inbox": ...

    @property
    def connections(self) -> int:
        """Grows when the connection breaks or comes back: what the broker keeps in memory, its memory of
        message ids included, may be gone then."""

    async def close(self) -> None: ...


class Inbox(Protocol):
    async def next(self) -> bytes: ...
    async def message(self) -> Message:
        """The next one with its subject and headers; it is not stored, so `seq` is 0."""

    async def close(self) -> None: ...


class Clock(Protocol):
    """Wall time of a shell; deciders get it as an argument."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None: ...
