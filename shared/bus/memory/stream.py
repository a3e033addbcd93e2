"""A stream and a work-queue consumer in memory: plain data and rules, no waiting."""

import heapq
from collections.abc import Iterator, Sequence

from msgspec import Struct

from shared.bus.ports import ConsumerState, Message, StreamState
from shared.bus.subject import matches
from shared.bus.topology import QueueConsumer, Stream
from shared.errors import Conflict, Duplicate
from shared.events.headers import MESSAGE_ID

NO_AGE = 0.0
TIES_NS = 10_000_000  # what messages of one moment get beyond it


class Stored(Struct, frozen=True):
    message: Message
    timestamp: int  # ns


def later(last: int, now: float) -> int:
    """A timestamp in ns. No two are the same; they go back only with a clock that was set."""
    wanted = int(now * 1e9)
    return wanted if last - wanted > TIES_NS else max(last + 1, wanted)


class MemoryStream:
    """`keep` is how many messages of a subject stay (0: all), `max_age_s` how long (0: for ever)."""

    def __init__(self, config: Stream, created: int, keep: int = 0, max_age_s: float = NO_AGE) -> None:
        self.config, self.created = config, created
        self._keep, self._max_age_s = keep, max_age_s
        self.stored: dict[int, Stored] = {}
        self.by_subject: dict[str, list[int]] = {}
        self._ids: dict[str, tuple[int, float]] = {}
        self._clock = created
        self.last = 0

    def takes(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.config.subjects)

    def append(
        self, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None, now: float
    ) -> int:
        self.expire(now)
        key = (headers or {}).get(MESSAGE_ID, "")
        if key in self._ids and now - self._ids[key][1] < self.config.duplicate_window_s:
            return self._ids[key][0]
        seqs = self.by_subject.get(subject, [])
        last = seqs[-1] if seqs else 0
        if expected is not None and expected != last:
            raise Conflict(f"{subject}: wrong last sequence: {last}, expected {expected}")
        if self.config.write_once and seqs:
            raise Duplicate(f"{subject}: holds a message")
        self.last += 1
        self._clock = later(self._clock, now)
        self.stored[self.last] = Stored(Message(subject, data, self.last, headers or None, self._clock), self._clock)
        self.by_subject.setdefault(subject, []).append(self.last)
        if key:
            self._ids[key] = (self.last, now)
        while self._keep and len(self.by_subject[subject]) > self._keep:
            self.remove(self.by_subject[subject][0])
        return self.last

    def remove(self, seq: int) -> None:
        stored = self.stored.pop(seq, None)
        if stored is None:
            return
        seqs = self.by_subject[stored.message.subject]
        seqs.remove(seq)
        if not seqs:
            del self.by_subject[stored.message.subject]

    def purge(self, pattern: str) -> list[int]:
        gone = [message.seq for message in self.read((pattern,), 0)]
        for seq in gone:
            self.remove(seq)
        return gone

    def state(self) -> StreamState:
        return StreamState(self.created, self.last)

    def expire(self, now: float) -> None:
        if self._max_age_s:
            oldest = int((now - self._max_age_s) * 1e9)
            for seq in [s for s, stored in self.stored.items() if stored.timestamp <= oldest]:
                self.remove(seq)

    def read(self, filters: Sequence[str], after: int) -> list[Message]:
        seqs = {
            seq
            for subject, held in self.by_subject.items()
            if any(matches(pattern, subject) for pattern in filters)
            for seq in held
            if seq > after
        }
        return [self.stored[seq].message for seq in sorted(seqs)]

    def after(self, position: int, filters: Sequence[str]) -> Iterator[Message]:
        for seq in range(position + 1, self.last + 1):
            stored = self.stored.get(seq)
            if stored and any(matches(pattern, stored.message.subject) for pattern in filters):
                yield stored.message

    def newest(self, subject: str) -> Message | None:
        seqs = self.by_subject.get(subject)
        return self.stored[seqs[-1]].message if seqs else None


class MemoryQueue:
    """Who may take which message when. A message is free at `free_at`: at once when it is new, after
    the lease when it is held. The heap may hold outdated times; the table is what counts."""

    def __init__(self, config: QueueConsumer, stream: MemoryStream) -> None:
        self.config, self._stream = config, stream
        self.free_at: dict[int, float] = {}
        self.deliveries: dict[int, int] = {}
        self._heap: list[tuple[float, int]] = []
        self._seen = self._last = config.after
        self._floor = 0  # 0: as is right
        self._has_gap = False

    def take(self, limit: int, now: float) -> list[tuple[Stored, int]]:
        """Up to `limit` free messages with their delivery counts; each is held for a lease."""
        self._notice_new()
        taken: list[tuple[Stored, int]] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < limit:
            at, seq = heapq.heappop(self._heap)
            stored = self._stream.stored.get(seq)
            if self.free_at.get(seq) != at or stored is None:
                continue
            self._last = max(self._last, seq)
            self.deliveries[seq] = self.deliveries.get(seq, 0) + 1
            self.free(seq, now + self.config.lease_s)
            taken.append((stored, self.deliveries[seq]))
        return taken

    def free(self, seq: int, at: float) -> None:
        """Holds the message until `at`; a message that was acknowledged stays gone."""
        if seq in self._stream.stored and seq > self._floor:
            self.free_at[seq] = at
            heapq.heappush(self._heap, (at, seq))

    def keep(self, seq: int, at: float) -> None:
        """As its holder asks. A message that the consumer considers done is not changed."""
        if seq in self.deliveries:
            self.free(seq, at)

    def ack(self, seq: int) -> None:
        """Accepted from an expired lease too, as the broker does: fencing is the log's work."""
        self._stream.remove(seq)
        self.forget(seq)
        if self._has_gap:
            self._has_gap = False
            for held in [held for held in self.deliveries if held < seq]:
                self.forget(held)
            self._floor = max(self._floor, seq)

    def forget(self, seq: int) -> None:
        self.free_at.pop(seq, None)
        self.deliveries.pop(seq, None)

    def purged(self, seqs: Sequence[int]) -> None:
        self._has_gap = self._has_gap or any(seq in self.deliveries for seq in seqs)
        for seq in seqs:
            self.forget(seq)

    def state(self) -> ConsumerState:
        self._notice_new()
        held = [seq for seq in self.deliveries if seq in self._stream.stored]
        pending = sum(seq not in self.deliveries and seq in self._stream.stored for seq in self.free_at)
        floor = max(self._floor, min(held) - 1 if held else self._last)
        return ConsumerState(pending, len(held), self._last, floor)

    def free_all(self, now: float) -> None:
        for seq in list(self.free_at):
            self.free(seq, now)

    def next_at(self) -> float | None:
        """When the next held message comes free, if none is taken, extended or acknowledged before."""
        self._notice_new()
        while self._heap and self.free_at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _notice_new(self) -> None:
        for message in self._stream.after(self._seen, (self.config.filter,)):
            self.free_at[message.seq] = NO_AGE
            heapq.heappush(self._heap, (NO_AGE, message.seq))
        self._seen = self._stream.last
