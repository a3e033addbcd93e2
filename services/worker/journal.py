"""What a lease writes: its events in order, in as few records as the promises allow.

1. Everything before an effect is in the log when it starts, and what it came to is sent there at once. So whoever takes
   over repeats at most one call with an effect, the last one, and the calls after it that only read (ADR 55).
2. Tasks without effects (noop) and `*.started` events wait for the next record, but not longer than FLUSH_S while a
   tool runs: people should see what runs, and a short run should cost one record.
3. One record is on its way at a time, since the next one has its number from it. `send` does not wait for it; whoever
   writes or waits next does, and repeats it if need be.
4. An append without an answer is unknown, not failed. The journal looks whether its record is there, by lease and `n`,
   and only then writes it again. Should both arrive, `n` makes every reader count one.
5. A cancellation does not cancel the append that is on its way (`_end_of`). `settle` waits for it, so that what is
   written next has the right number; if that cannot be known, nothing more may be written under this lease.
6. A record that readers would reject is not written: it would count for nothing, and the run would stay where it is.
   What is too large for one record is halved, since the facts of a lease do not depend on each other; a single event
   that is too large is `TooLarge`, and fails its task or run.
"""

import asyncio
import re
from collections.abc import Awaitable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.engine.pipeline.notes import Notes
from shared.engine.values.stored_values import MAX_RECORD_BYTES, Unstorable, unwritable
from shared.errors import Forged, Unavailable
from shared.events import subjects
from shared.events.bounds import MAX_RECORD_NAME, is_deep
from shared.events.model import Event, Printed
from shared.events.record import Kept, Record, decode, encode, readable
from shared.events.stamp import stamp
from shared.runtime.stores import results

FLUSH_S = 0.05
SHORT_BYTES = 4096  # of a record, up to which looking for a long text is cheaper than decoding it
SETTLE_S = 5.0
_LONG = re.compile(rb'[^"]{%d}' % (MAX_RECORD_NAME + 1))
_PART = MAX_RECORD_NAME // 2  # wherever a text of more than that begins, one such part lies within it
T = TypeVar("T")
RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)


class _Sent(NamedTuple):
    """A record on its way."""

    future: "asyncio.Future[int]"
    subject: str
    data: bytes
    events: list[Event]


class Journal:
    """Writes the notes of a lease. Nothing of the lease is in the log up to `after`."""

    def __init__(self, bus: Bus, clock: Clock, notes: Notes, partitions: int, after: int = 0) -> None:
        self._bus, self._clock, self._notes, self._after = bus, clock, notes, after
        self._partition = subjects.partition_of(notes.execution_id, partitions)
        self._partitions = partitions
        self._sent: _Sent | None = None
        self._marked: Event | None = None
        self._at = 0.0  # when that one was noted

    @property
    def has_spoken(self) -> bool:
        """An event of the lease is in the log, or on its way there."""
        return self._notes.n > 0 or self._sent is not None

    async def settle(self) -> None:
        """After a cancellation: what was on its way is now in the log. Raises Unavailable if that cannot be known."""
        if self._sent is None:
            return
        try:
            async with asyncio.timeout(SETTLE_S):
                await asyncio.shield(self._sent.future)
        except TimeoutError:
            raise Unavailable("no answer to what was on its way") from None
        self._arrived(self._sent)

    async def release(self, why: str, printed: Printed | None = None) -> None:
        """The lease is handed back on purpose; `printed` by the call that was under way."""
        await self.settle()
        if self._notes.release(why, printed):
            await self.flush()

    async def flush(self) -> None:
        """Everything noted is in the log when this returns."""
        await self._write_noted()
        if self._sent is not None:
            await self._wait()

    async def send(self) -> None:
        """Everything noted is on its way to the log when this returns, unless something else still is."""
        if self._sent is None or self._sent.future.done():
            await self._write_noted()
            if self._sent is not None:
                self._sent.future.add_done_callback(_heard)
        else:
            self._mark()

    async def _write_noted(self) -> None:
        """Values stored beside the log are stored first: a record never refers to something that is not there."""
        self._mark()
        if self._sent is not None:
            await self._wait()
        events = self._notes.take()
        if blobs := self._notes.take_stored():
            await self._store(blobs)
        if events:
            await self._write(events)

    def _mark(self) -> None:
        """A record has the time of its last event, however long it waits for the one before it."""
        if (noted := self._notes.unwritten) and noted[-1] is not self._marked:
            self._marked, self._at = noted[-1], self._clock.now()

    async def _store(self, blobs: dict[str, bytes]) -> None:
        try:
            await results.store(self._bus, self._notes.execution_id, blobs, self._notes.lease.pool)
        except results.Occupied as error:
            raise Unstorable(str(error)) from None

    async def _write(self, events: list[Event]) -> None:
        if self._sent is not None:  # the half before it
            await self._wait()
        notes = self._notes
        record = Record(
            notes.execution_id, notes.writer, notes.n + 1, stamp(self._at), tuple(events), lease=notes.lease
        )
        data = encode(record)
        subject = subjects.event(self._partition, notes.execution_id, notes.writer, notes.lease.pool)
        if wrong := self._wrong(subject, data, events):
            if len(events) == 1:
                raise Unstorable(wrong)
            half = len(events) // 2
            await self._write(events[:half])
            await self._write(events[half:])
            return
        await self._append(subject, data, events)

    def _wrong(self, subject: str, data: bytes, events: list[Event]) -> str:
        """Why readers would reject it. A short record without a long text that is not deeply nested is not decoded:
        nothing in it can be too long, and numbers and times are our own."""
        if len(data) <= SHORT_BYTES and not has_long_text(data) and not is_deep(data):
            return ""
        if len(data) > MAX_RECORD_BYTES:
            return unwritable(events)
        try:
            decode(Kept(subject, data), self._partitions)
        except Forged as error:
            return str(error)
        return ""

    async def _append(self, subject: str, data: bytes, events: list[Event]) -> None:
        """Hands the record to the broker, or keeps it as one that did not arrive."""
        try:
            future = await self._bus.send(subject, data)
        except Unavailable as error:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        self._sent = _Sent(future, subject, data, events)

    async def _wait(self) -> None:
        """Until what is on its way is in the log: tries until it is there; after silence it looks whether it already is
        (rule 4)."""
        tries = 0
        while (sent := self._sent) is not None:
            try:
                if not sent.future.done():
                    await _end_of(sent.future)
                sent.future.result()
                self._arrived(sent)
                return
            except Unavailable:
                await self._clock.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
                tries += 1
            except Exception:
                self._sent = None  # refused for good
                raise
            with suppress(Unavailable):
                if await self._is_there(sent.subject, self._notes.n + 1):
                    self._arrived(sent)
                    return
            await self._append(sent.subject, sent.data, sent.events)

    def _arrived(self, sent: _Sent) -> None:
        self._sent = None
        self._notes.count(sent.events)

    async def _is_there(self, subject: str, n: int) -> bool:
        found = await self._bus.read(topology.events_stream(self._partition), [subject], after=self._after)
        lease = self._notes.lease
        return any(record.lease == lease and record.n == n for _, record in readable(found, self._partitions))

    async def during(self, work: Awaitable[T]) -> T:
        """Runs a tool; if it takes longer than FLUSH_S, what is noted so far is written meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=FLUSH_S)
            if not task.done():
                await self.flush()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


def has_long_text(data: bytes) -> bool:
    """Whether a text in it may be longer than a name may be; of one that has quotes itself this cannot be told. A text
    that long fills a whole part of the record, which has no quote then: that is quickly seen."""
    if b'\\"' in data:
        return True
    for end in range(_PART, len(data) + 1, _PART):
        if data.find(b'"', end - _PART, end) < 0:
            return _LONG.search(data) is not None
    return False


def _end_of(future: "asyncio.Future[int]") -> "asyncio.Future[None]":
    """Waits for the future, and leaves it alone when cancelled: what `shield` does, for half of what that costs."""
    waiter: asyncio.Future[None] = future.get_loop().create_future()

    def ended(future: "asyncio.Future[int]") -> None:
        if waiter.done():
            _heard(future)
        else:
            waiter.set_result(None)

    future.add_done_callback(ended)
    return waiter


def _heard(future: "asyncio.Future[int]") -> None:
    """A lease that ends does not ask what became of its last record."""
    if not future.cancelled():
        future.exception()
