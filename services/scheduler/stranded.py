"""Commands that are due and that nobody holds: those that are not in the queue are published; those that are in it and
will never be delivered are issued again.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from services.scheduler.publisher import Publishing, subject_of
from services.scheduler.reissue import AT_ONCE, Again
from shared.bus import topology
from shared.bus.ports import Bus, ConsumerState
from shared.events.beat import Key
from shared.events.command import Command, key_of

log = structlog.get_logger()


def is_stranded(seq: int, consumer: ConsumerState, *, seen: bool) -> bool:
    """Delivered once, and neither pending nor held: the consumer considers it done, or holds nothing at all. Or the
    consumer says it is held, and no worker has named it since it was `seen` a sweep ago."""
    return seq <= consumer.last and (seq <= consumer.floor or not consumer.held or seen)


class Stranded:
    def __init__(self, bus: Bus, publishing: Publishing, again: Again) -> None:
        self._bus, self._publishing, self._again = bus, publishing, again
        self._seen: dict[Key, int] = {}

    async def look(self, idle: Sequence[Command]) -> None:
        """The consumers first: what is in the stream by then and was not delivered yet has a higher sequence."""
        consumers = {pool: await self._bus.consumer(topology.COMMANDS, pool) for pool in {c.pool for c in idle}}
        found: list[tuple[Command, int]] = []
        for first in range(0, len(idle), AT_ONCE):
            part = idle[first : first + AT_ONCE]
            found += zip(part, await asyncio.gather(*map(self._seq, part)), strict=True)
        for command, seq in found:
            if not seq:
                self._publishing.again(command, 0)
        await self._mend([(command, seq) for command, seq in found if seq], consumers)

    async def _seq(self, command: Command) -> int:
        found = await self._bus.find(topology.COMMANDS, subject_of(command))
        return 0 if found is None else found.seq

    async def _mend(
        self, found: Sequence[tuple[Command, int]], consumers: Mapping[str, ConsumerState | None]
    ) -> None:
        before, self._seen = self._seen, {}
        stranded = []
        for command, seq in found:
            consumer, key = consumers[command.pool], key_of(command)
            if consumer is None or seq > consumer.last:
                continue
            self._seen[key] = seq
            if is_stranded(seq, consumer, seen=before.get(key) == seq):
                stranded.append((command, seq))
                log.warning("command.stranded", execution_id=key[0], run_id=key[1], index=key[2], seq=seq)
        await self._again.issue(stranded)
