"""Notes between executions: appended to the other's log until the broker has it. Written twice, it is the
same fact; what is unwritten when the router stops is written by its successor."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
import structlog

from shared.bus import dead_letters
from shared.bus.ports import Bus, Clock
from shared.engine.core import Outgoing
from shared.errors import NoetlError, Refused
from shared.events import subjects
from shared.events.note import Note
from shared.events.record import Record, encode
from shared.events.stamp import stamp
from shared.runtime.service.background import Tasks

log = structlog.get_logger()
RETRY_S = 0.5


class Notes:
    def __init__(self, bus: Bus, clock: Clock, partitions: int) -> None:
        self._bus, self._clock, self._partitions = bus, clock, partitions
        self._tasks = Tasks()

    def send(self, messages: Sequence[Outgoing], then: Callable[[], None]) -> None:
        self._tasks.start(self._tell_all(messages, then))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _tell_all(self, messages: Sequence[Outgoing], then: Callable[[], None]) -> None:
        for message in messages:
            assert isinstance(message, Note)
            await self._tell_until_heard(message)
        then()

    async def _tell_until_heard(self, note: Note) -> None:
        while True:
            try:
                await self.tell(note)
                return
            except Refused as error:  # it will not be accepted later either
                await self._bury(note, error)
                return
            except NoetlError as error:
                log.warning("note.waits", execution_id=note.execution_id, source=note.source, error=str(error))
                await self._clock.sleep(RETRY_S)

    async def _bury(self, note: Note, error: Refused) -> None:
        """The parent keeps waiting: people have to look into it."""
        log.error("note.refused", execution_id=note.execution_id, source=note.source, error=str(error))
        with suppress(NoetlError):
            place = f"note {note.source} to {note.execution_id}"
            await dead_letters.bury(self._bus, subjects.ROUTER, place, str(error), msgspec.json.encode(note.event))

    async def tell(self, note: Note) -> None:
        partition = subjects.partition_of(note.execution_id, self._partitions)
        record = Record(note.execution_id, "control", 1, stamp(self._clock.now()), (note.event,), source=note.source)
        await self._bus.append(subjects.event(partition, note.execution_id, subjects.CONTROL), encode(record))
