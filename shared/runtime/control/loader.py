"""The state of an execution from its snapshot, if there is a good one, and what the log holds beyond it."""

from typing import Generic

from shared.bus import topology
from shared.bus.ports import Bus
from shared.events import subjects
from shared.events.record import decode
from shared.runtime.core import Core, Entry, S
from shared.runtime.snapshots import Snapshots


class Loader(Generic[S]):
    def __init__(self, bus: Bus, partition: int, core: Core[S]) -> None:
        self._bus, self._partition, self._core = bus, partition, core
        self._stream = topology.events_stream(partition)
        self.snapshots: Snapshots[S] = Snapshots(bus, core.bucket, core.kind)

    async def load(self, execution_id: str) -> tuple[S, bool]:
        """The state, and whether there is a snapshot of it.

        A shell that does not know yet that it has decided before folds what came after without it. Such a
        state decides wrongly and is refused by the broker; a snapshot of it shows here, because the log has
        a decision between its own last one and its last input.
        """
        known = await self.snapshots.get(execution_id)
        start = known if known is not None else self._core.empty(execution_id)
        records = await self._read(execution_id, min(start.seq, start.as_of))
        own = self._core.writer
        if any(record.writer == own and start.seq < seq <= start.as_of for seq, record in records):
            start = self._core.empty(execution_id)
            records = await self._read(execution_id, 0)
        news = [
            (seq, record) for seq, record in records if seq > (start.seq if record.writer == own else start.as_of)
        ]
        return self._core.fold(start, news), known is not None

    async def _read(self, execution_id: str, after: int) -> list[Entry]:
        writers = (self._core.writer, *self._core.listens)
        filters = [subjects.event(self._partition, execution_id, writer) for writer in writers]
        messages = await self._bus.read(self._stream, filters, after=after)
        return [(message.seq, decode(message.data)) for message in messages]
