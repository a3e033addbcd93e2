"""The queue: at least once, held by a lease, at most one message per subject."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from shared.bus.ports import Bus, Consumer, ConsumerState, Delivery, Message
from shared.bus.topology import COMMANDS
from shared.errors import Duplicate, Unavailable
from tests.contract.bus.conftest import Connect
from tests.support.servers.nats import LEASE_S
from tests.support.waiting import until


def command(run: str, pool: str = "default") -> str:
    return f"noetl.commands.{pool}.e1.{run}"


async def one(consumer: Consumer, within: float = 5.0) -> Delivery:
    async with asyncio.timeout(within):
        batch = await consumer.batch(1)
    assert len(batch) == 1
    return batch[0]


async def is_empty(consumer: Consumer, for_s: float) -> bool:
    try:
        async with asyncio.timeout(for_s):
            await consumer.batch(1)
    except TimeoutError:
        return True
    return False


async def is_soon(bus: Bus, wanted: ConsumerState) -> None:
    await until(lambda: bus.consumer(COMMANDS, "default"), f"{wanted}", 2.0, so=lambda found: found == wanted)


async def test_a_command_is_delivered_with_its_epoch(bus: Bus) -> None:
    seq = await bus.append(command("r1"), b"run", headers={"Trace": "t"})
    delivery = await one(await bus.consume(COMMANDS, "default", 8))
    assert (delivery.subject, delivery.data, delivery.seq) == (command("r1"), b"run", seq)
    assert delivery.headers == {"Trace": "t"}
    assert delivery.epoch[1] == 1
    assert abs(delivery.epoch[0] / 1e9 - time.time()) < 60


async def test_an_acked_command_is_gone_and_its_subject_free(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    first = await one(consumer)
    await first.ack()
    assert await is_empty(consumer, 2 * LEASE_S)
    await bus.append(command("r1"), b"again")
    assert (await one(consumer)).epoch > first.epoch


async def test_deleted_commands_are_gone_queued_or_held_and_others_stay(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    held = await one(consumer)
    for run in ("r1.0", "r1.1", "r2"):
        await bus.append(command(run), b"")
    assert await bus.delete(COMMANDS, held.seq)
    assert not await bus.delete(COMMANDS, held.seq)
    after = 0
    while (found := await bus.find(COMMANDS, command("r1.*"), after)) is not None:
        after = found.seq
        assert await bus.delete(COMMANDS, after)
    await held.ack()
    await bus.append(command("r1"), b"again")
    left = {(await one(consumer)).subject for _ in "12"}
    assert left == {command("r1"), command("r2")}


async def test_a_command_held_beside_a_deleted_one_comes_again_when_its_lease_is_over(bus: Bus) -> None:
    """Also when one delivered after it is acknowledged: a purge by subject would lose it here."""
    consumer = await bus.consume(COMMANDS, "default", 8)
    for run in "abc":
        await bus.append(command(run), b"")
    held = {each.subject: each for each in [await one(consumer) for _ in "abc"]}
    assert await bus.delete(COMMANDS, held[command("b")].seq)
    await held[command("c")].ack()
    again = await one(consumer)
    assert (again.subject, again.epoch[1]) == (command("a"), 2)


async def test_a_consumer_says_what_is_pending_held_and_done(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    for run in "ab":
        await bus.append(command(run), b"")
    first, second = await one(consumer), await one(consumer)
    await consumer.close()
    await bus.append(command("c"), b"")
    await second.ack()
    await is_soon(bus, ConsumerState(pending=1, held=1, last=2, floor=0))
    await first.ack()
    await is_soon(bus, ConsumerState(pending=1, held=0, last=2, floor=2))
    assert await bus.consumer(COMMANDS, "nobody") is None


async def test_a_message_is_found_by_its_subject_after_a_sequence(bus: Bus) -> None:
    seqs = [await bus.append(command(run), run.encode(), headers={"H": run}) for run in ("r1.0", "r1.1", "r2")]
    found = await bus.find(COMMANDS, command("r1.*"), seqs[0])
    assert found is not None
    assert replace(found, at=0) == Message(command("r1.1"), b"r1.1", seqs[1], {"H": "r1.1"})
    assert await bus.find(COMMANDS, command("r1.*"), seqs[1]) is None
    with pytest.raises(Unavailable):
        await bus.find("NONE", ">")


async def test_the_state_of_a_stream_is_its_time_and_its_last_sequence(bus: Bus) -> None:
    last = await bus.append(command("r1"), b"")
    state = await bus.state(COMMANDS)
    assert (state.created, state.last) == (await bus.created(COMMANDS), last)


async def test_a_message_meant_for_another_connection_is_not_stored(bus: Bus) -> None:
    with pytest.raises(Unavailable, match="connection that is over"):
        await (await bus.send(command("r1"), b"", on=bus.connections - 1))
    await (await bus.send(command("r1"), b"", on=bus.connections))
    assert (await bus.state(COMMANDS)).last == 1


async def test_a_run_has_at_most_one_command_queued_or_held(bus: Bus) -> None:
    await bus.append(command("r1"), b"")
    with pytest.raises(Duplicate):
        await bus.append(command("r1"), b"")
    await one(await bus.consume(COMMANDS, "default", 8))
    with pytest.raises(Duplicate):
        await bus.append(command("r1"), b"")


async def test_an_expired_lease_is_delivered_again_with_a_greater_epoch(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    first = await one(consumer)
    second = await one(consumer)
    assert second.seq == first.seq
    assert second.epoch > first.epoch


@pytest.mark.parametrize("how", ["progress", "extend"])
async def test_progress_keeps_the_lease(bus: Bus, how: str) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    held = await one(consumer)
    for _ in range(4):
        await asyncio.sleep(LEASE_S / 2)
        await getattr(held, how)()
    assert await is_empty(consumer, LEASE_S / 3)


async def test_an_extension_is_answered_also_when_another_has_the_message_by_now(bus: Bus) -> None:
    """So that it says nothing about whose the lease is: that is for the log to say."""
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    first = await one(consumer)
    second = await one(consumer)
    await first.extend()
    await second.ack()
    await first.extend()


async def handed_on(bus: Bus) -> tuple[Consumer, Delivery, Delivery]:
    """A command, its former holder and the present one."""
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    first = await one(consumer)
    return consumer, first, await one(consumer)


async def test_an_extension_by_a_former_holder_undoes_the_delay_of_a_nak(bus: Bus) -> None:
    consumer, former, present = await handed_on(bus)
    await present.nak(LEASE_S / 4)
    await former.extend()
    assert await is_empty(consumer, LEASE_S / 2)
    assert (await one(consumer)).epoch[1] == 3


async def test_a_nak_by_a_former_holder_shortens_the_lease_of_the_present_one(bus: Bus) -> None:
    consumer, former, _ = await handed_on(bus)
    await former.nak(LEASE_S / 4)
    assert (await one(consumer, within=LEASE_S / 2 + 0.2)).epoch[1] == 3


async def test_a_nak_by_a_former_holder_is_undone_when_the_present_one_extends(bus: Bus) -> None:
    consumer, former, present = await handed_on(bus)
    await former.nak(LEASE_S / 2)
    await asyncio.sleep(LEASE_S / 4)
    await present.extend()
    assert await is_empty(consumer, LEASE_S / 2)


async def test_a_nak_gives_back_after_its_delay(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    await (await one(consumer)).nak(0.3)
    began = time.monotonic()
    assert (await one(consumer)).epoch[1] == 2
    assert 0.25 < time.monotonic() - began < LEASE_S + 0.2


async def test_a_nak_without_delay_gives_back_at_once(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    await bus.append(command("r1"), b"")
    await (await one(consumer)).nak()
    assert (await one(consumer, within=LEASE_S / 2)).epoch[1] == 2


async def test_a_pool_gets_its_own_commands_only(bus: Bus) -> None:
    await bus.append(command("r1", "gpu"), b"")
    await bus.append(command("r2", "default"), b"")
    default, gpu = await bus.consume(COMMANDS, "default", 8), await bus.consume(COMMANDS, "gpu", 8)
    assert (await one(default)).subject == command("r2", "default")
    assert (await one(gpu)).subject == command("r1", "gpu")


async def test_a_worker_is_not_given_more_than_it_can_hold(connect_as: Connect) -> None:
    """What one worker has no slot for is there for another at once, not after a lease."""
    bus, first, second = await connect_as("admin"), await connect_as("admin"), await connect_as("admin")
    for i in range(6):
        await bus.append(command(f"r{i}"), b"")
    busy, idle = await first.consume(COMMANDS, "default", 16), await second.consume(COMMANDS, "default", 16)
    taken = 0
    while taken < 2:
        taken += len(await busy.batch(2 - taken))
    async with asyncio.timeout(LEASE_S / 2):
        found = 0
        while found < 4:
            found += len(await idle.batch(4 - found))


async def test_closing_hands_back_what_was_not_taken(connect_as: Connect) -> None:
    bus, leaving, staying = await connect_as("admin"), await connect_as("admin"), await connect_as("admin")
    consumer = await leaving.consume(COMMANDS, "default", 16)
    waiting = asyncio.create_task(consumer.batch(4))
    await asyncio.sleep(0.05)
    waiting.cancel()
    for i in range(4):
        await bus.append(command(f"r{i}"), b"")
    await asyncio.sleep(0.05)
    await consumer.close()
    other = await staying.consume(COMMANDS, "default", 16)
    async with asyncio.timeout(LEASE_S / 2):
        found = 0
        while found < 4:
            found += len(await other.batch(4))


async def test_closing_while_commands_arrive_leaves_none_behind(connect_as: Connect) -> None:
    bus, leaving = await connect_as("admin"), await connect_as("worker_default")
    staying = await connect_as("worker_default")
    consumer = await leaving.consume(COMMANDS, "default", 16)
    waiting = asyncio.create_task(consumer.batch(16))
    await asyncio.sleep(0.05)
    waiting.cancel()
    futures = [await bus.send(command(f"r{i}"), b"run") for i in range(8)]
    closing = asyncio.create_task(consumer.close())
    futures += [await bus.send(command(f"r{i}"), b"run") for i in range(8, 16)]
    await asyncio.gather(closing, *futures)
    other = await staying.consume(COMMANDS, "default", 16)
    async with asyncio.timeout(LEASE_S / 2):
        found = 0
        while found < 16:
            found += len(await other.batch(16))


async def test_many_commands_reach_exactly_one_of_two_workers(connect_as: Connect) -> None:
    bus = await connect_as("admin")
    workers = [await connect_as("worker_default") for _ in range(2)]
    total, seen = 1000, list[str]()
    done = asyncio.Event()

    async def work(worker: Bus) -> None:
        consumer = await worker.consume(COMMANDS, "default", 32)
        while True:
            for delivery in await consumer.batch(32):
                seen.append(delivery.subject)
                await delivery.ack()
            if len(seen) >= total:
                done.set()

    tasks = [asyncio.create_task(work(worker)) for worker in workers]
    futures = [await bus.send(command(f"r{i}"), b"x") for i in range(total)]
    await asyncio.gather(*futures)
    async with asyncio.timeout(30):
        await done.wait()
    await asyncio.sleep(LEASE_S + 0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(seen) == sorted(command(f"r{i}") for i in range(total))


async def test_a_closed_consumer_does_not_hang(bus: Bus) -> None:
    consumer = await bus.consume(COMMANDS, "default", 8)
    waiting = asyncio.create_task(consumer.batch(1))
    await asyncio.sleep(0.05)
    await consumer.close()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 2)
