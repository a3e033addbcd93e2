"""The handles of the broker in memory: what a simulator can do to its clients, in virtual time."""

import asyncio

import pytest

from shared.bus import dead_letters, topology
from shared.bus.memory.bus import Faults, MemoryBroker, MemoryBus
from shared.bus.topology import COMMANDS, WORKERS, events_stream, wanted
from shared.errors import Corrupt, Unavailable, Unknown
from shared.events import subjects
from tests.support.clock import VirtualClock, clock

__all__ = ["clock"]

STREAM = events_stream(0)
EVENT, COMMAND = "noetl.events.0.x.router", "noetl.commands.default.x.r1"


class Script(Faults):
    """Does what the test says, once, at the next matching operation."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.fail_before: dict[str, Exception] = {}
        self.fail_after: dict[str, Exception] = {}
        self.delay_before: dict[str, float] = {}
        self.delay_after: dict[str, float] = {}

    async def before(self, operation: str, client: str, subject: str) -> None:
        await self._do(operation, self.delay_before, self.fail_before)

    async def after(self, operation: str, client: str, subject: str) -> None:
        await self._do(operation, self.delay_after, self.fail_after)

    async def _do(self, operation: str, delays: dict[str, float], failures: dict[str, Exception]) -> None:
        if operation in delays:
            await self._clock.sleep(delays.pop(operation))
        if operation in failures:
            raise failures.pop(operation)


@pytest.fixture
def script(clock: VirtualClock) -> Script:
    return Script(clock)


@pytest.fixture
def broker(clock: VirtualClock, script: Script) -> MemoryBroker:
    return MemoryBroker(clock, wanted(), script)


@pytest.fixture
def bus(broker: MemoryBroker) -> MemoryBus:
    return MemoryBus(broker, "a")


async def test_a_lost_request_is_not_applied(bus: MemoryBus, script: Script) -> None:
    script.fail_before["send"] = Unavailable("lost")
    with pytest.raises(Unavailable):
        await bus.append(EVENT, b"")
    assert await bus.last_seq(STREAM) == 0


async def test_a_lost_answer_was_applied(bus: MemoryBus, script: Script) -> None:
    script.fail_after["send"] = Unknown("lost")
    with pytest.raises(Unknown):
        await bus.append(EVENT, b"")
    assert await bus.last_seq(STREAM) == 1


async def test_a_slow_answer_does_not_hold_up_the_next_publish(
    bus: MemoryBus, script: Script, clock: VirtualClock
) -> None:
    script.delay_after["send"] = 5.0
    slow = await bus.send(EVENT, b"1")
    quick = await bus.send(EVENT, b"2")
    assert await quick == 2
    assert not slow.done()
    await clock.advance(5)
    assert slow.result() == 1


async def test_a_slow_request_keeps_its_place(bus: MemoryBus, script: Script, clock: VirtualClock) -> None:
    script.delay_before["send"] = 1.0
    tasks = [asyncio.create_task(bus.append(EVENT, data)) for data in (b"1", b"2")]
    await clock.advance(1)
    assert [task.result() for task in tasks] == [1, 2]


async def test_an_outage_refuses_requests_and_delays_deliveries(
    bus: MemoryBus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    await bus.append(EVENT, b"")
    broker.set_down(True)
    following = asyncio.create_task(bus.follow(STREAM, [">"], 0).batch())
    await clock.advance(10)
    assert not following.done()
    for call in (bus.append(EVENT, b""), bus.read(STREAM, [">"]), bus.kv_get(WORKERS, "w")):
        with pytest.raises(Unavailable):
            await call
    broker.set_down(False)
    assert [m.seq for m in await following] == [1]


async def test_a_killed_client_never_gets_an_answer(
    bus: MemoryBus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    follower = bus.follow(STREAM, [">"], 0)
    tasks = [asyncio.create_task(follower.batch())]
    await clock.settle()
    broker.kill("a")
    tasks.append(asyncio.create_task(bus.append(EVENT, b"dead")))
    await MemoryBus(broker, "b").append(EVENT, b"alive")
    await clock.advance(100)
    assert not any(task.done() for task in tasks)
    assert await MemoryBus(broker, "b").last_seq(STREAM) == 1
    for task in tasks:
        task.cancel()


async def test_what_a_killed_client_held_comes_free_with_its_lease(
    bus: MemoryBus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    await bus.append(COMMAND, b"")
    first = (await (await bus.consume(COMMANDS, "default", 4)).batch(1))[0]
    broker.kill("a")
    other = MemoryBus(broker, "b")
    waiting = asyncio.create_task((await other.consume(COMMANDS, "default", 4)).batch(1))
    await clock.advance(14)
    assert not waiting.done()
    await clock.advance(2)
    assert waiting.result()[0].epoch > first.epoch


async def test_a_lost_ack_is_delivered_again(bus: MemoryBus, script: Script, clock: VirtualClock) -> None:
    consumer = await bus.consume(COMMANDS, "default", 4)
    await bus.append(COMMAND, b"")
    script.fail_before["ack"] = Unavailable("lost")
    await (await consumer.batch(1))[0].ack()
    again = asyncio.create_task(consumer.batch(1))
    await clock.advance(16)
    assert again.result()[0].epoch[1] == 2


async def test_leases_freed_early_give_the_message_to_a_second_holder(
    bus: MemoryBus, broker: MemoryBroker
) -> None:
    consumer = await bus.consume(COMMANDS, "default", 4)
    await bus.append(COMMAND, b"")
    first = (await consumer.batch(1))[0]
    broker.free_leases(COMMANDS)
    second = (await consumer.batch(1))[0]
    assert (second.seq, second.epoch > first.epoch) == (first.seq, True)


async def test_a_wiped_queue_is_empty_and_newer(bus: MemoryBus, broker: MemoryBroker) -> None:
    consumer = await bus.consume(COMMANDS, "default", 4)
    await bus.append(COMMAND, b"")
    held, created = (await consumer.batch(1))[0], await bus.created(COMMANDS)
    broker.wipe(COMMANDS)
    assert await bus.created(COMMANDS) > created
    await bus.append(COMMAND, b"again")
    await held.ack()  # of the old queue: it must not remove the new command
    fresh = (await consumer.batch(1))[0]
    assert (fresh.data, fresh.epoch > held.epoch) == (b"again", True)


async def test_a_lost_queue_is_waited_for(bus: MemoryBus, broker: MemoryBroker, clock: VirtualClock) -> None:
    broker.lose(COMMANDS)
    waiting = asyncio.create_task((await bus.consume(COMMANDS, "default", 4)).batch(1))
    await clock.advance(5)
    with pytest.raises(Unavailable):
        await bus.created(COMMANDS)
    with pytest.raises(Unavailable):
        await bus.append(COMMAND, b"")
    broker.ensure(wanted())
    await bus.append(COMMAND, b"")
    assert len(await waiting) == 1


async def test_a_rolled_back_stream_stops_its_followers(bus: MemoryBus, broker: MemoryBroker) -> None:
    follower = bus.follow(STREAM, [">"], 0)
    await bus.append(EVENT, b"")
    await follower.batch()
    broker.wipe(STREAM)
    with pytest.raises(Corrupt):
        await follower.batch()


async def test_a_message_that_arrives_while_a_delivery_is_slow_is_not_missed(
    bus: MemoryBus, script: Script, clock: VirtualClock
) -> None:
    script.delay_after["deliver"] = 1.0
    following = asyncio.create_task(bus.follow(STREAM, [">"], 0).batch())
    await clock.settle()
    await bus.append(EVENT, b"")
    await clock.advance(1)
    assert [m.seq for m in following.result()] == [1]


async def test_beats_expire_by_the_clock(bus: MemoryBus, clock: VirtualClock) -> None:
    await bus.kv_put(WORKERS, "default.w1", b"")
    await clock.advance(9.9)
    assert await bus.kv_get(WORKERS, "default.w1") is not None
    await clock.advance(0.2)
    assert await bus.kv_get(WORKERS, "default.w1") is None


async def test_a_refusal_though_nothing_is_stored_is_not_taken_for_a_letter_that_is_there(
    clock: VirtualClock,
) -> None:
    broker = MemoryBroker(clock)
    broker.ensure(topology.wanted(partitions=1))
    left = [True]
    broker.contested = lambda _, subject: subject.startswith(subjects.DEAD) and bool(left) and left.pop()
    bus = MemoryBus(broker)
    with pytest.raises(Unavailable):
        await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "why")
    assert await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "why")
    assert not await dead_letters.bury(bus, "router", "NOETL_EVENTS_0/7", "why")
