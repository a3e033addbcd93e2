"""A broker in memory that holds given histories under given sequences, as a reader of the log finds them."""

from collections.abc import Mapping, Sequence

from shared.bus import topology
from shared.bus.memory import MemoryBroker, MemoryBus
from shared.events import subjects
from shared.events.record import Record, encode
from shared.runtime import catalog
from shared.runtime.clock import SystemClock
from tests.sim.playbooks import BOOKS, compiled

PARTITIONS = 2
History = Sequence[tuple[int, Record | bytes]]


async def planted(histories: Mapping[str, History], values: Mapping[str, bytes] | None = None) -> MemoryBus:
    """`values` are messages of the results stream by subject. A record may be any bytes: its writer is the router."""
    bus = MemoryBus(MemoryBroker(SystemClock(), topology.wanted(partitions=PARTITIONS)))
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
    writer, data = (record.writer, encode(record)) if isinstance(record, Record) else ("router", record)
    stream.append(subjects.event(partition, execution_id, writer), data, None, None, 0.0)
