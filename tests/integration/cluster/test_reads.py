"""A read on three replicas has no holes: whatever is below the newest message of it is in it. And it is not old:
what was confirmed before it began is in it."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import events_stream
from tests.support.servers.nats_cluster import NatsCluster

STREAM = events_stream(3)
WRITERS = ("router", "scheduler", "worker", "iteration", "control")
EXECUTIONS = 4
SECONDS = 10.0
ROUNDS = 300
BURST = 5


@pytest.fixture
async def readers(quiet: NatsCluster) -> AsyncIterator[list[JetStreamBus]]:
    """A control service at one node, workers at the others: those read through an account of their own."""
    users = ("router", "worker_default", "worker_gpu")
    found = [await quiet.connect(user, node) for node, user in enumerate(users)]
    yield found
    for bus in found:
        await bus.close()


def _subjects(execution: int) -> list[str]:
    return [f"noetl.events.3.holes-{execution}.{writer}" for writer in WRITERS]


class Holes:
    """`known` are the sequences of each execution whose append was confirmed."""

    def __init__(self) -> None:
        self.known: list[set[int]] = [set() for _ in range(EXECUTIONS)]
        self.old = 0  # reads that miss what was confirmed before they began
        self.read: list[tuple[int, list[int]]] = []

    async def write(self, bus: JetStreamBus, execution: int, stop: asyncio.Event) -> None:
        rng = random.Random(execution)
        while not stop.is_set():
            burst = [await bus.send(rng.choice(_subjects(execution)), b"x" * 200) for _ in range(BURST)]
            self.known[execution].update(await asyncio.gather(*burst))

    async def look(self, bus: JetStreamBus, execution: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            confirmed = max(self.known[execution], default=0)
            after = max(0, confirmed - 300)
            found = [message.seq for message in await bus.read(STREAM, _subjects(execution), after)]
            self.old += bool(confirmed > after and (not found or found[-1] < confirmed))
            self.read.append((execution, [after, *found]))

    def count(self) -> int:
        """Reads that miss a message below the newest they returned."""
        return sum(not self._is_whole(execution, found) for execution, found in self.read)

    def _is_whole(self, execution: int, found: Sequence[int]) -> bool:
        first, last = found[0], found[-1]
        return sorted(seq for seq in self.known[execution] if first < seq <= last) == list(found[1:])


async def test_reads_while_many_write_have_no_holes_and_are_not_old(
    buses: list[JetStreamBus], readers: list[JetStreamBus]
) -> None:
    holes, stop = Holes(), asyncio.Event()
    work = [holes.write(buses[n % 3], n, stop) for n in range(EXECUTIONS)]
    work += [holes.look(bus, n, stop) for n in range(EXECUTIONS) for bus in readers]
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(SECONDS)
    stop.set()
    await asyncio.gather(*tasks)
    assert len(holes.read) > 200
    figures = {"reads": len(holes.read), "with holes": holes.count(), "old": holes.old}
    assert figures == {"reads": len(holes.read), "with holes": 0, "old": 0}


async def test_what_was_confirmed_is_read_at_once_from_any_node(
    buses: list[JetStreamBus], readers: list[JetStreamBus]
) -> None:
    subject, old = "noetl.events.3.fresh.router", 0

    async def is_old(bus: JetStreamBus, seq: int) -> bool:
        found = await bus.read(STREAM, [subject], seq - 1)
        return [message.seq for message in found] != [seq]

    for number in range(ROUNDS):
        seq = await buses[number % 3].append(subject, b"x")
        old += sum(await asyncio.gather(*(is_old(bus, seq) for bus in readers)))
    assert old == 0


async def test_the_last_message_and_the_value_of_a_key_are_those_confirmed_last(buses: list[JetStreamBus]) -> None:
    subject, bucket, old = "noetl.events.3.last.router", "noetl_cursors", 0

    async def is_old(bus: JetStreamBus, seq: int) -> bool:
        last = await bus.get(STREAM, subject)
        return last is None or last.seq < seq

    async def is_old_value(bus: JetStreamBus, revision: int) -> bool:
        entry = await bus.kv_get(bucket, "fresh")
        return entry is None or entry.revision < revision

    async def are_old(bus: JetStreamBus, value: bytes) -> bool:
        return (await bus.kv_all(bucket))["fresh"] != value

    for number in range(ROUNDS):
        seq = await buses[number % 3].append(subject, b"x")
        old += sum(await asyncio.gather(*(is_old(bus, seq) for bus in buses)))
        value = b"%d" % number
        revision = await buses[number % 3].kv_put(bucket, "fresh", value)
        old += sum(await asyncio.gather(*(is_old_value(bus, revision) for bus in buses)))
        old += sum(await asyncio.gather(*(are_old(bus, value) for bus in buses)))
    assert old == 0
