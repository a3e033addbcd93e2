"""Reads what the log says of runs that may have been held before (`engine/leases/fence.py` says what counts of it)."""

import asyncio
from weakref import WeakValueDictionary

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.pipeline.history import History, accept, known
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import Record, readable
from shared.events.run_index import RUN, is_run


class _Ask:
    """What the log says of a run since its command's cause, once someone has looked."""

    __slots__ = ("after", "key", "records", "seq")

    def __init__(self, command: Command) -> None:
        self.key, self.after, self.seq = (command.run_id, command.index), command.cause, 0
        self.records: list[Record] | None = None


class Histories:
    """Reads what the log says of runs. The iterations of a loop share a subject, and after a restart many of them
    are claimed at once: one read answers everyone who asked before it began."""

    def __init__(self, bus: Bus, partitions: int) -> None:
        self._bus, self._partitions = bus, partitions
        self._asks: dict[tuple[str, str], list[_Ask]] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def read(self, command: Command, *, in_local: bool = False) -> History:
        own = subjects.WORKER if is_run(command.index) else subjects.ITERATION
        subject, ask = (command.execution_id, own), _Ask(command)
        self._asks.setdefault(subject, []).append(ask)
        lock = self._locks.get(subject)
        if lock is None:
            lock = self._locks[subject] = asyncio.Lock()
        async with lock:
            if ask.records is None:
                await self._look(*subject, {ask, *self._asks.pop(subject, [])})
        assert ask.records is not None
        if command.since and ask.seq < command.since:
            raise Unavailable("the log does not show the end of the wait yet")
        return accept(ask.records, command.run_id, command.index, known(command, in_local=in_local))

    async def _look(self, execution_id: str, own: str, asks: set[_Ask]) -> None:
        """If this fails, each of the others reads on its own when it gets the lock."""
        partition = subjects.partition_of(execution_id, self._partitions)
        writers = (own, subjects.WAITING, subjects.SCHEDULER)
        filters = subjects.written(partition, execution_id, writers)
        after = min(ask.after for ask in asks)
        messages = await self._bus.read(topology.events_stream(partition), filters, after=after)
        known: dict[tuple[str, int], list[tuple[int, Record]]] = {}
        for seq, record in readable(messages, self._partitions):
            for key in _about(record):
                known.setdefault(key, []).append((seq, record))
        for ask in asks:
            found = known.get(ask.key, [])
            if ask.key[1] != RUN and (whole := known.get((ask.key[0], RUN))):
                found = sorted([*found, *whole], key=lambda entry: entry[0])
            ask.records, ask.seq = [record for _, record in found], messages[-1].seq if messages else 0


def _about(record: Record) -> set[tuple[str, int]]:
    """The runs a record speaks of."""
    if record.lease is not None:
        return {(record.lease.run_id, record.lease.index)}
    return {(event.run_id, event.index) for event in record.events if isinstance(event, ev.TaskResumed)}
