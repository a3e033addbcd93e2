"""A broker in memory that holds given histories under given sequences, as a reader of the log finds them."""

from collections.abc import Mapping, Sequence

from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.events import subjects
from shared.events.record import Record, encode
from shared.runtime.stores import catalog
from tests.sim.books.playbooks import BOOKS, compiled
from tests.support.memory_bus import memory_bus

PARTITIONS = 2
LATER = 4_000_000_000.0  # when all of them are put there
History = Sequence[tuple[int, Record | bytes]]


async def planted(histories: Mapping[str, History], values: Mapping[str, bytes] | None = None) -> MemoryBus:
    """`values` are messages of the results stream by subject. A record may be any bytes: its writer is the router."""
    bus = memory_bus(PARTITIONS)
    for book in BOOKS:
        plan = compiled(book.source).plan
        assert plan is not None
        await catalog.register(bus, book.source, plan)
    for subject, data in (values or {}).items():
        await bus.append(subject, data)
    every = [(seq, name, record) for name, entries in histories.items() for seq, record in entries]
    for seq, name, record in sorted(every, key=lambda entry: entry[0]):
        put(bus, seq, name, record)
    return bus


def put(bus: MemoryBus, seq: int, execution_id: str, record: Record | bytes) -> None:
    partition = subjects.partition_of(execution_id, PARTITIONS)
    stream = bus.broker.streams[topology.events_stream(partition)]
    stream.last = seq - 1
    if isinstance(record, Record):
        lease = record.lease
        subject = subjects.event(partition, execution_id, record.writer, lease.pool if lease is not None else "")
        stream.append(subject, encode(record), None, None, LATER)
    else:
        stream.append(subjects.event(partition, execution_id, "router"), record, None, None, LATER)
