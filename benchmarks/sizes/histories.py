"""Finished executions without running each: the history of one that ran, under other ids.

What is copied is what the services wrote: only the execution's id and the sequences that it names differ, and `verify`
derives every decision of a copy as it does of the first. An execution's id stands in the subject and in the record;
a decision names the last sequence that it had read, which the copy has elsewhere.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Bus, Message
from shared.events import subjects

FLIGHT = 4096  # publishes under way
_AS_OF = re.compile(rb'"as_of":(\d+)')


class Part(Struct, frozen=True):
    """A record in pieces: the id of its execution goes between those of `data`; `as_of` is the number of records of the
    history that its decision had read, or -1."""

    writer: str
    data: tuple[bytes, ...]
    as_of: int


class History(Struct, frozen=True):
    parts: tuple[Part, ...]

    def copy(self, name: str, after: int) -> Iterator[tuple[str, bytes]]:
        """Subject and data of each record of an execution whose first record is `after` + 1 of its stream."""
        partition = subjects.partition_of(name, topology.PARTITIONS)
        for part in self.parts:
            data = name.encode().join(part.data)
            if part.as_of >= 0:
                data = _AS_OF.sub(b'"as_of":%d' % (after + part.as_of), data, count=1)
            yield f"{subjects.EVENTS}.{partition}.{name}.{part.writer}", data


async def recorded(bus: Bus, name: str) -> History:
    """Of an execution that ran alone: nothing else was written between its records."""
    partition = subjects.partition_of(name, topology.PARTITIONS)
    messages = await bus.read(topology.events_stream(partition), [subjects.events_of(partition, name)])
    first = messages[0].seq
    if [message.seq for message in messages] != list(range(first, first + len(messages))):
        raise SystemExit(f"{name} did not run alone")
    return History(tuple(_part(message, name, first) for message in messages))


def _part(message: Message, name: str, first: int) -> Part:
    writer = message.subject.split(".", 4)[4]
    found = _AS_OF.search(message.data)
    as_of = int(found[1]) - first + 1 if found else -1
    return Part(writer, tuple(message.data.split(name.encode())), as_of)


class Writer:
    """Puts copies into the log of their partitions, many at a time and each partition in order. Nothing else writes."""

    def __init__(self, bus: Bus, history: History) -> None:
        self._bus, self._history = bus, history
        self._last = dict.fromkeys(range(topology.PARTITIONS), 0)

    async def write(self, names: Sequence[str]) -> dict[int, int]:
        """The last sequence of each partition."""
        for partition in self._last:
            self._last[partition] = await self._bus.last_seq(topology.events_stream(partition))
        async for chunk in self._sent(names):
            for expected, future in chunk:
                if await future != expected:
                    raise SystemExit(f"record {await future} of a stream should be {expected}: somebody else writes")
        return self._last

    async def _sent(self, names: Sequence[str]) -> AsyncIterator[list[tuple[int, "asyncio.Future[int]"]]]:
        chunk: list[tuple[int, asyncio.Future[int]]] = []
        for name in names:
            partition = subjects.partition_of(name, topology.PARTITIONS)
            for subject, data in list(self._history.copy(name, self._last[partition])):
                self._last[partition] += 1
                chunk.append((self._last[partition], await self._bus.send(subject, data)))
            if len(chunk) >= FLIGHT:
                yield chunk
                chunk = []
        yield chunk
