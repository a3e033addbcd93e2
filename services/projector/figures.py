"""What a projector tells of itself: how far the read model is behind the log."""

import asyncio
from collections.abc import Iterator

from shared.bus import stored_messages, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus, Clock
from shared.bus.stored_messages import Backlog
from shared.runtime.service import metric_names as names
from shared.runtime.service.durations import Durations
from shared.runtime.service.metrics import Sample, lag


class Figures:
    """`after` is up to where each partition is in the read model, as far as this projector knows."""

    def __init__(self, bus: Bus, clock: Clock | None) -> None:
        self._bus, self._clock = bus, clock
        self.after: dict[int, int] = {}
        self.records = 0
        self.writing = Durations()
        self._behind: dict[int, Backlog] = {}

    def wrote(self, partition: int, after: int, records: int, seconds: float) -> None:
        self.after[partition] = after
        self.records += records
        self.writing.add(seconds)

    async def ask(self) -> None:
        self._behind = {}
        if isinstance(self._bus, JetStreamBus):
            await asyncio.gather(*(self._ask(self._bus, *each) for each in list(self.after.items())))

    async def _ask(self, bus: JetStreamBus, partition: int, after: int) -> None:
        stream = topology.events_stream(partition)
        self._behind[partition] = await stored_messages.backlog(bus, stream, [">"], after)

    def samples(self) -> Iterator[Sample]:
        yield Sample(names.PROJECTED, self.records)
        yield Sample(names.STAGE, self.writing, ("write",))
        if self._clock is not None:
            since = {partition: (found.waiting, found.since) for partition, found in self._behind.items()}
            yield from lag(names.PROJECTOR_LAG, names.PROJECTOR_LAG_SECONDS, since, self._clock.now())
