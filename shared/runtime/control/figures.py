"""What router and scheduler tell of themselves: what they counted, and how far behind the log each partition is."""

import asyncio
from collections.abc import Iterator

from shared.bus import stored_messages, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus, Clock
from shared.bus.stored_messages import Backlog
from shared.engine.core import S
from shared.events import subjects
from shared.runtime.control.counts import Counts
from shared.runtime.control.partitions import Partitions
from shared.runtime.control.shell import Shell
from shared.runtime.service import health
from shared.runtime.service import metric_names as names
from shared.runtime.service.metrics import Sample, lag


class Figures:
    def __init__(self, bus: Bus, clock: Clock, partitions: Partitions[S], counts: Counts) -> None:
        self._bus, self._clock, self._partitions, self._counts = bus, clock, partitions, counts
        self._behind: dict[int, Backlog] = {}
        health.figures(self.samples, self.ask)

    async def ask(self) -> None:
        """How much of the log waits for this service."""
        self._behind = {}
        if isinstance(self._bus, JetStreamBus):
            await asyncio.gather(*(self._ask(self._bus, shell) for shell in list(self._partitions.shells.values())))

    async def _ask(self, bus: JetStreamBus, shell: Shell[S]) -> None:
        filters = subjects.events_by(shell.partition, *shell.core.listens)
        stream = topology.events_stream(shell.partition)
        self._behind[shell.partition] = await stored_messages.backlog(bus, stream, filters, shell.cursor)

    def samples(self) -> Iterator[Sample]:
        counts = self._counts
        yield Sample(names.RECORDS_READ, counts.read)
        yield Sample(names.RECORDS_WRITTEN, counts.written)
        yield Sample(names.CONFLICTS, counts.conflicts)
        yield Sample(names.DECIDE, counts.deciding)
        yield Sample(names.STAGE, counts.reading, ("read",))
        yield Sample(names.SET_ASIDE, counts.aside)
        for partition, shell in self._partitions.shells.items():
            yield Sample(names.LIVE, len(shell.actors), (str(partition),))
            yield Sample(names.OPEN, shell.seen - shell.cursor, (str(partition),))
        behind = {partition: (found.waiting, found.since) for partition, found in self._behind.items()}
        yield from lag(names.LAG, names.LAG_SECONDS, behind, self._clock.now())
