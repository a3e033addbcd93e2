"""What the services ask of a broker. `jetstream.py` and `memory/bus.py` both keep these promises, and
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

from shared.errors import Conflict, Unavailable


class Message(Struct, frozen=True, gc=False):
    """A stored message. `seq` is its sequence in the stream, `at` the broker's time of it in ns (0: not known). `reply`
    is where the sender of a core message waits for an answer."""

    subject: str
    data: bytes
    seq: int
    headers: dict[str, str] | None = None
    at: int = 0
    reply: str = ""


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

    async def extend(self) -> None:
        """The same, confirmed: from now on it lasts for its whole time, unless it was lost before. Unavailable when
        the broker does not say so."""


class Follower(Protocol):
    async def batch(self) -> Sequence[Message]:
        """Waits for at least one message; returns all that have arrived (bounded)."""

    async def close(self) -> None: ...


class Consumer(Protocol):
    async def batch(self, limit: int) -> Sequence[Delivery]:
        """Waits for at least one delivery; returns up to `limit`."""

    async def close(self) -> None:
        """Stops asking; hands back (naks) what was fetched and not delivered."""


class Entry(Struct, frozen=True, gc=False):
    value: bytes
    revision: int


class Storage(Struct, frozen=True, gc=False):
    """Bytes in files. A limit of 0: none that can be seen from here."""

    used: int
    limit: int


class StreamState(Struct, frozen=True):
    """When the stream was made, in ns, and the highest sequence it has given. A cluster that restarts as a whole keeps
    the time of a stream in memory and begins the sequences again."""

    created: int
    last: int


class ConsumerState(Struct, frozen=True):
    """`pending` were never delivered; `held` are with someone, or were handed back; up to the sequence `last` messages
    were delivered, and up to `floor` the consumer considers all of them done."""

    pending: int
    held: int
    last: int
    floor: int


class Bus(Protocol):
    async def send(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None,
        on: int | None = None,
    ) -> "Future[int]":
        """Hands a message to the broker in order. The future gives its sequence, or raises Conflict
        (`expected` is not the subject's last sequence), Duplicate (write-once subject), Refused,
        Unavailable (not stored), or Unknown (no answer in time: it may have been stored). With `on`, it is Unavailable
        if `connections` is another number at the moment of writing."""

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        """`send`, waited for."""

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> Follower:
        """Every message of `filters` with a sequence over `after`, in order, then what comes. `lazy`
        leaves them at the broker until `batch` is called, needs no consumer there, and may be half a second late."""

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        """What the stream holds now, in order. On replicas too it is whole (whatever is below the newest message
        of it is in it) and not old (what was confirmed before is in it); Unavailable when no replica can
        show that in a moment."""

    async def get(self, stream: str, subject: str, *, any_copy: bool = False) -> Message | None:
        """The last message of a subject. On replicas it is the leader's, so what was confirmed before is seen.
        `any_copy` is cheaper there and may be old, or None though there is one: for caches, and for what never
        changes (ask again without it when it is not there)."""

    async def last_seq(self, stream: str) -> int:
        """As the leader knows it."""

    async def consume(self, stream: str, durable: str, prefetch: int, *, keep: bool = False) -> Consumer:
        """What is fetched ahead and not taken soon is handed back, so that another may take it. Each time counts as a
        delivery: with `keep` it is held for as long as a lease may last, for callers to whom the number of deliveries
        says how often a message was tried."""

    async def created(self, stream: str) -> int:
        """When the stream was made, in ns; raises Unavailable when it is not there."""

    async def state(self, stream: str) -> StreamState:
        """Raises Unavailable when the stream is not there."""

    async def consumer(self, stream: str, durable: str) -> ConsumerState | None:
        """None: there is no such consumer."""

    async def find(self, stream: str, subject: str, after: int = 0) -> Message | None:
        """The first message of the subject (wildcards allowed) with a sequence over `after`, as the one who takes
        writes knows it."""

    async def delete(self, stream: str, seq: int) -> bool:
        """One message leaves the stream, also if it is held; false: it had gone. A consumer keeps what it knows of the
        others, which is not so when a queue is purged by subject: those that are held are then lost to it."""

    async def kv_get(self, bucket: str, key: str, *, any_copy: bool = False) -> Entry | None:
        """As `get`."""

    async def kv_is_named(self, bucket: str, key: str) -> bool:
        """Whether anything was put under the key, for whoever may know names and not values. One that was deleted since
        is still named."""

    async def kv_put(self, bucket: str, key: str, value: bytes, *, expected: int | None = None) -> int:
        """`expected` 0 creates; another revision compares and sets; Conflict otherwise."""

    async def kv_delete(self, bucket: str, key: str) -> None:
        """A mark in its place: it has no value, and is still named."""

    async def kv_purge(self, bucket: str, key: str) -> None:
        """The key goes with all its values, as if it had never been: nobody can ask for what it held."""

    async def kv_all(self, bucket: str) -> dict[str, bytes]:
        """As `read`."""

    async def publish(self, subject: str, data: bytes) -> None:
        """At most once, not stored: heartbeats and replies."""

    async def subscribe(self, subject: str, *, group: str = "") -> "Inbox":
        """Of all subscribers in a group, one gets each message; without one, everybody does."""

    async def storage(self) -> Storage:
        """How much of its store the account has used."""

    async def time(self) -> float:
        """The broker's wall clock, in seconds since the epoch, at some moment between the call and its answer. On a
        cluster it is that of the one node that leads a certain stream, so all who ask in one moment ask the same."""

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
        """Seconds since the epoch, by the broker. It never goes back."""

    @property
    def skew(self) -> float:
        """By how much the host's own clock is ahead of it, as last seen."""

    async def sleep(self, seconds: float) -> None: ...


async def append_once(bus: Bus, stream: str, subject: str, data: bytes) -> bool:
    """False: there is a message of this subject already. On replicas a refusal alone does not say so: then it is
    looked for."""
    try:
        await bus.append(subject, data, expected=0)
    except Conflict:
        if await bus.get(stream, subject) is None:
            raise Unavailable(f"{subject} is neither stored nor taken") from None
        return False
    return True
