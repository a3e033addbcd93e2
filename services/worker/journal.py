"""What a lease writes: its events in order, as few records as the promises allow.

A finished task with an effect is in the log before the next effect starts. Tasks without effects
(noop) and `*.started` events wait for the next record, but not longer than FLUSH_S while a tool runs.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.engine.large import MAX_RECORD_BYTES, TooLarge, shrink
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.index import RUN
from shared.events.model import (
    Event,
    FrameClaimed,
    FrameFailed,
    IterationDone,
    IterationFailed,
    LoopHalted,
    StepDone,
    StepFailed,
    TaskWaiting,
)
from shared.events.record import Lease, Record, Writer, decode, encode
from shared.events.stamp import stamp
from shared.runtime import results

FLUSH_S = 0.05
SETTLE_S = 5.0
LAST = (
    StepDone | StepFailed | IterationDone | IterationFailed | FrameClaimed | FrameFailed | LoopHalted | TaskWaiting
)
T = TypeVar("T")
RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)


class Journal:
    """Nothing of the lease is in the log up to `after`."""

    def __init__(
        self, bus: Bus, clock: Clock, execution_id: str, lease: Lease, partitions: int, limit: int, after: int = 0,
        *, loop: bool = False,
    ) -> None:
        """`loop`: the lease is on a loop as a whole, of which the scheduler wants to hear."""
        self._bus, self._clock = bus, clock
        self._execution_id, self._lease, self._limit, self._after = execution_id, lease, limit, after
        self._own: Writer = subjects.WORKER if lease.index == RUN and not loop else subjects.ITERATION
        self._writer: Writer = self._own
        self._partition = subjects.partition_of(execution_id, partitions)
        self._waiting: list[Event] = []
        self._blobs: dict[str, bytes] = {}
        self._n = 0
        self._sent: tuple[asyncio.Future[int], list[Event]] | None = None
        self._last: Event | None = None

    @property
    def over(self) -> bool:
        """The lease has said its last word."""
        return isinstance(self._last, LAST)

    def note(self, *events: Event) -> list[Event]:
        """These go out with the next record; as they stand in it. TooLarge when a value is over the limit for one."""
        small, blobs = shrink(self._execution_id, list(events), self._limit)
        self._waiting += small
        self._blobs.update(blobs)
        return small

    def forget(self) -> None:
        """What was noted and not written is dropped, a wait included."""
        self._waiting, self._blobs = [], {}
        self._writer = self._own

    async def park(self) -> None:
        """What is noted ends with a wait: it goes to the scheduler, and nothing may follow."""
        self._writer = subjects.WAITING
        await self.flush()

    async def settle(self) -> None:
        """After a cancellation: what was on its way is in the log, or Unavailable when that cannot be known."""
        if self._sent is None:
            return
        future, events = self._sent
        try:
            async with asyncio.timeout(SETTLE_S):
                await asyncio.shield(future)
        except TimeoutError:
            raise Unavailable("no answer to what was on its way") from None
        self._sent = None
        self._count(events)

    def _count(self, events: list[Event]) -> None:
        self._n += len(events)
        self._last = events[-1]

    async def flush(self) -> int:
        """Everything noted is in the log when this returns; its last sequence. A lease's facts stand
        each for itself, so what does not fit into one record goes into several."""
        events, self._waiting = self._waiting, []
        if self._blobs:
            await results.store(self._bus, self._execution_id, self._blobs)
            self._blobs = {}
        return await self._write(events) if events else 0

    async def _write(self, events: list[Event]) -> int:
        record = Record(
            self._execution_id, self._writer, self._n + 1, stamp(self._clock.now()), tuple(events), lease=self._lease
        )
        data = encode(record)
        if len(data) > MAX_RECORD_BYTES:
            if len(events) == 1:
                raise TooLarge(f"a record of {len(data)} bytes is over {MAX_RECORD_BYTES}: keep less in iter and ctx")
            half = len(events) // 2
            await self._write(events[:half])
            return await self._write(events[half:])
        subject = subjects.event(self._partition, self._execution_id, self._writer)
        seq = await self._append(subject, data, events)
        self._count(events)
        return seq

    async def _append(self, subject: str, data: bytes, events: list[Event]) -> int:
        """Tries until the record is in the log; after silence it looks whether it already is."""
        tries = 0
        while True:
            try:
                future = await self._bus.send(subject, data)
                self._sent = future, events
                seq = await asyncio.shield(future)
                self._sent = None
                return seq
            except Unavailable:
                await self._clock.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
                tries += 1
            try:
                if (found := await self._find(subject, self._n + 1)) is not None:
                    return found
            except Unavailable:
                continue

    async def _find(self, subject: str, n: int) -> int | None:
        stream = topology.events_stream(self._partition)
        for message in await self._bus.read(stream, [subject], after=self._after):
            record = decode(message.data)
            if record.lease == self._lease and record.n == n:
                return message.seq
        return None

    async def during(self, work: Awaitable[T]) -> T:
        """Runs a tool; if it takes longer, what is noted so far goes out meanwhile."""
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
