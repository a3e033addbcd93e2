"""The state of an execution from its snapshot, if there is a good one, and what the log holds beyond it."""

from collections.abc import Collection, Sequence
from typing import Generic

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.core import Core, S
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.record import Entry, readable
from shared.runtime.control.snapshots import BUCKETS, Snapshots


class Loader(Generic[S]):
    def __init__(self, bus: Bus, partition: int, partitions: int, core: Core[S]) -> None:
        self._bus, self._partition, self._partitions, self._core = bus, partition, partitions, core
        self._stream = topology.events_stream(partition)
        self.snapshots: Snapshots[S] = Snapshots(bus, BUCKETS[core.writer], core.kind)

    async def load(
        self, execution_id: str, delivered: Collection[int] = (), *, whole: bool = False
    ) -> tuple[S, bool]:
        """The state, and whether there is a snapshot of it, which is not used if the `whole` log is wanted. `delivered`
        are sequences that the follower has shown: a read without one of them is not believed.

        A shell that does not know yet that it has decided before folds what came after without it. Such a
        state decides wrongly and is refused by the broker; a snapshot of it shows here, because the log has
        a decision between its own last one and its last input.
        """
        known = await self.snapshots.get(execution_id)
        empty = self._core.empty(execution_id)
        start = known if known is not None and not whole else empty
        records = await self._read(execution_id, min(start.seq, start.as_of))
        own = self._core.writer
        hidden = any(record.writer == own and start.seq < seq <= start.as_of for seq, record in records)
        if hidden or self._has_gap(start, records):
            start = empty
            records = await self._read(execution_id, 0)
        if not {seq for seq in delivered if seq > start.as_of} <= {seq for seq, _ in records}:
            raise Unavailable("the log does not show what was delivered from it yet")
        news = [
            (seq, record) for seq, record in records if seq > (start.seq if record.writer == own else start.as_of)
        ]
        return self._core.fold(start, news), known is not None

    def _has_gap(self, start: S, records: Sequence[Entry]) -> bool:
        """Own events are numbered without a gap. It is read a second time before `fold` calls that corrupt."""
        n = start.n
        for seq, record in records:
            if record.writer == self._core.writer and seq > start.seq:
                if record.n != n + 1:
                    return True
                n += len(record.events)
        return False

    async def _read(self, execution_id: str, after: int) -> list[Entry]:
        writers = (self._core.writer, *self._core.listens)
        filters = subjects.written(self._partition, execution_id, writers)
        return list(readable(await self._bus.read(self._stream, filters, after=after), self._partitions))
