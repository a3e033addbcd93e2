"""Commands that are issued again: exactly the message that is lost, once, whoever notices."""

import asyncio

import pytest
from msgspec.structs import replace

from services.scheduler.publisher import Publishing, subject_of
from services.scheduler.queue_loss import WATCH_S, Loss
from services.scheduler.reissue import Again
from services.scheduler.stranded import Stranded, is_stranded
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.ports import ConsumerState
from shared.events import command as commands
from shared.events.command import FRESH_S, Command, is_fresh
from tests.support.clock import START, VirtualClock, clock

__all__ = ["clock"]

COMMAND = Command("x", "r1", "s", "d", "default", 1, fresh=True, at=START)
OTHER = replace(COMMAND, run_id="r2")


class Scheduler:
    def __init__(self, broker: MemoryBroker, clock: VirtualClock, name: str) -> None:
        self.bus = MemoryBus(broker, name)
        self.publishing = Publishing(self.bus, clock)
        self.publishing.looked(self.bus.connections)
        self.again = Again(self.bus, self.publishing.again)
        self.stranded = Stranded(self.bus, self.publishing, self.again)
        self._task = asyncio.create_task(self.publishing.run())


@pytest.fixture
def broker(clock: VirtualClock) -> MemoryBroker:
    return MemoryBroker(clock, topology.wanted())


async def put(scheduler: Scheduler, *items: Command) -> list[int]:
    return [
        await scheduler.bus.append(subject_of(item), commands.encode(item), headers={"Nats-Msg-Id": subject_of(item)})
        for item in items
    ]


def queued(broker: MemoryBroker) -> dict[int, Command]:
    stored = broker.streams[topology.COMMANDS].stored
    return {seq: commands.decode(each.message.data) for seq, each in stored.items()}


async def test_what_is_issued_again_takes_the_place_of_its_message_and_is_not_fresh(
    broker: MemoryBroker, clock: VirtualClock
) -> None:
    """The broker still remembers the id of the first."""
    scheduler = Scheduler(broker, clock, "s")
    first, second = await put(scheduler, COMMAND, OTHER)
    assert await scheduler.again.issue([(COMMAND, first)]) == 1
    await clock.settle()
    assert queued(broker) == {second: OTHER, second + 1: replace(COMMAND, fresh=False)}


async def test_two_schedulers_that_both_look_after_a_run_issue_it_once(
    broker: MemoryBroker, clock: VirtualClock
) -> None:
    one, two = Scheduler(broker, clock, "one"), Scheduler(broker, clock, "two")
    (seq,) = await put(one, COMMAND)
    await asyncio.gather(one.again.issue([(COMMAND, seq)]), two.again.issue([(COMMAND, seq)]))
    await clock.settle()
    assert list(queued(broker)) == [seq + 1]
    (taken,) = await (await one.bus.consume(topology.COMMANDS, "default", 1)).batch(1)
    await taken.ack()  # it is over by the time the slower of the two gets there
    assert await two.again.issue([(COMMAND, seq)]) == 1
    await clock.settle()
    assert queued(broker) == {}


async def test_a_run_that_is_in_the_queue_as_another_message_is_left_alone(
    broker: MemoryBroker, clock: VirtualClock
) -> None:
    scheduler = Scheduler(broker, clock, "s")
    (seq,) = await put(scheduler, COMMAND)
    assert await scheduler.again.issue([(COMMAND, seq - 1), (COMMAND, 0)]) == 0
    await clock.settle()
    assert list(queued(broker)) == [seq]


@pytest.mark.parametrize(("seq", "consumer", "seen", "stranded"), [
    (5, ConsumerState(pending=1, held=0, last=4, floor=4), True, False),  # never delivered
    (5, ConsumerState(pending=0, held=2, last=9, floor=7), False, True),  # taken for done
    (5, ConsumerState(pending=0, held=0, last=9, floor=4), False, True),  # nothing is held at all
    (5, ConsumerState(pending=0, held=2, last=9, floor=4), False, False),  # held, by someone who has not said so yet
    (5, ConsumerState(pending=0, held=2, last=9, floor=4), True, True),
])
def test_stranded_is_what_was_delivered_and_is_neither_pending_nor_held(
    seq: int, consumer: ConsumerState, seen: bool, stranded: bool
) -> None:
    assert is_stranded(seq, consumer, seen=seen) is stranded


async def test_a_sweep_mends_what_a_purge_by_hand_stranded(broker: MemoryBroker, clock: VirtualClock) -> None:
    scheduler = Scheduler(broker, clock, "s")
    a, b, c = (replace(COMMAND, run_id=name) for name in "abc")
    await put(scheduler, a, b, c)
    consumer = await scheduler.bus.consume(topology.COMMANDS, "default", 8)
    held = await consumer.batch(8)
    broker.purge(topology.COMMANDS, subject_of(b))
    await held[2].ack()
    await clock.advance(2 * topology.COMMAND_LEASE_S)
    assert broker.queues[topology.COMMANDS, "default"].take(8, clock.now()) == []
    assert list(queued(broker)) == [1]
    await scheduler.stranded.look([a])
    await clock.settle()
    (again,) = await consumer.batch(8)
    assert (again.subject, again.seq) == (subject_of(a), 4)


async def test_a_sweep_leaves_what_waits_and_publishes_what_is_not_there(
    broker: MemoryBroker, clock: VirtualClock
) -> None:
    scheduler = Scheduler(broker, clock, "s")
    await put(scheduler, COMMAND)
    for _ in "123":
        await scheduler.stranded.look([COMMAND, OTHER])
        await clock.settle()
    assert [item.run_id for item in queued(broker).values()] == ["r1", "r2"]


async def test_only_time_between_two_answers_on_one_connection_counts_as_listened(
    broker: MemoryBroker, clock: VirtualClock
) -> None:
    """A scheduler that was frozen, or cut off, has heard nobody: it takes no one for dead."""
    scheduler, listened = Scheduler(broker, clock, "s"), list[float]()
    loss = Loss(scheduler.bus, clock, _nothing, lambda: [], scheduler.publishing, scheduler.again, listened.append)
    task = asyncio.create_task(loss.watch())
    await clock.advance(5 * WATCH_S)
    assert sum(listened) == pytest.approx(4 * WATCH_S, abs=WATCH_S)
    clock.freeze(60.0)
    listened.clear()
    await clock.advance(0.2)
    assert listened == [0.0]
    broker.set_down(True)
    await clock.advance(60.0)
    broker.set_down(False)
    listened.clear()
    await clock.advance(WATCH_S + 0.2)
    assert listened == [0.0]
    task.cancel()


@pytest.mark.parametrize(("stored", "delivered", "believed"), [
    (START + FRESH_S - 0.1, 1, True), (START + FRESH_S + 0.1, 1, False), (START, 2, False),
])
def test_a_fresh_command_is_believed_if_the_broker_took_it_soon_after_its_cause(
    stored: float, delivered: int, believed: bool
) -> None:
    epoch = (int(stored * 1e9), delivered)
    assert is_fresh(COMMAND, epoch) is believed
    assert not is_fresh(replace(COMMAND, fresh=False), epoch)


async def _nothing() -> None:
    """The queue is there."""
