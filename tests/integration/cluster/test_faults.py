"""Reads and followers while nodes are stopped, killed and catch up: nothing is missed, nobody gives up."""

import asyncio
from functools import partial

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.bus.topology import events_stream
from shared.errors import Corrupt, Unavailable
from tests.support.servers.nats_cluster import NODES, NatsCluster
from tests.support.suite.long import long
from tests.support.waiting import until

STREAM = events_stream(0)
WRITERS = ("router", "scheduler", "worker")
SUBJECTS = [f"noetl.events.0.e.{writer}" for writer in WRITERS]
WRITTEN = 3000
PAYLOAD = b"x" * 1000


async def write(bus: JetStreamBus, count: int) -> list[int]:
    """What was confirmed; a publish that nobody answers is let go."""
    done: list[int] = []
    for start in range(0, count, 100):
        sent = [await bus.send(SUBJECTS[n % 3], PAYLOAD) for n in range(start, start + 100)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        done += [answer for answer in answers if isinstance(answer, int)]
        await asyncio.sleep(0.1 if len(done) < start else 0.0)
    return done


async def read(bus: JetStreamBus, after: int = 0) -> list[Message]:
    """As callers do: again when it is unavailable."""
    read = partial(bus.read, STREAM, SUBJECTS, after)
    return await until(read, "a read is answered", 60.0, so=lambda _: True, despite=(Unavailable,), every_s=0.1)


@pytest.mark.parametrize("how", [long("stopped"), long("killed"), "stopped leader"])
async def test_a_node_that_catches_up_serves_no_read_with_a_hole(cluster: NatsCluster, how: str) -> None:
    """A leader that was stopped takes itself for the leader for a moment when it goes on."""
    bus = await cluster.connect("admin")
    await cluster.ensure(bus)
    leader = await cluster.leader(bus, STREAM)
    behind = leader if "leader" in how else (leader + 1) % NODES
    writer, reader = [await cluster.connect("admin", (behind + 1) % NODES) for _ in range(2)]
    await write(writer, 300)
    if how == "killed":
        cluster.kill(behind)
    else:
        cluster.freeze(behind)
    if behind == leader:
        await cluster.leader(writer, STREAM, after=leader)
    confirmed = await write(writer, WRITTEN)
    if how == "killed":
        await asyncio.to_thread(cluster.start, behind)
    else:
        cluster.thaw(behind)
    readers = [reader, await cluster.connect("router", behind)]
    for number in range(60):
        found = await read(readers[number % 2])
        seqs = [message.seq for message in found]
        assert seqs == list(range(1, len(seqs) + 1))
        if behind != leader:
            assert set(confirmed) <= set(seqs)
        await asyncio.sleep(0.01)
    assert set(confirmed) <= set(seqs)
    for each in (bus, writer, *readers):
        await each.close()


async def test_a_follower_waits_for_a_leader_that_is_behind_it_and_not_for_ever(
    cluster: NatsCluster, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.bus.pull.BEHIND_TRIES", 10)  # some 6 s
    bus = await cluster.connect("admin")
    await cluster.ensure(bus)
    await bus.append(SUBJECTS[0], b"1")
    early, lost = (bus.follow(STREAM, [SUBJECTS[0]], after) for after in (2, 9))
    waiting = [asyncio.ensure_future(follower.batch()) for follower in (early, lost)]
    await asyncio.sleep(1.0)
    for number in (2, 3):
        await bus.append(SUBJECTS[0], b"%d" % number)
    assert [message.seq for message in await asyncio.wait_for(waiting[0], 10)] == [3]
    with pytest.raises(Corrupt, match="ends before the cursor"):
        await asyncio.wait_for(waiting[1], 30)
    await bus.close()


async def test_leaders_are_killed_while_followers_follow_and_readers_read(cluster: NatsCluster) -> None:
    bus = await cluster.connect("admin")
    await cluster.ensure(bus)
    follower = bus.follow(STREAM, ["noetl.events.0.*.*"], 0)
    followed: list[int] = []

    async def follow() -> None:
        while True:
            followed.extend([message.seq for message in await follower.batch()])

    following = asyncio.create_task(follow())
    confirmed: list[int] = []
    for _ in range(3):
        leader = await cluster.leader(bus, STREAM)
        writing = asyncio.create_task(write(bus, 1000))
        await asyncio.sleep(0.2)
        cluster.kill(leader)
        confirmed += await writing
        await cluster.leader(bus, STREAM, after=leader)
        await asyncio.to_thread(cluster.start, leader)
        await cluster.settled(bus)
        seqs = [message.seq for message in await read(bus)]
        assert set(confirmed) <= set(seqs)
        assert seqs == sorted(set(seqs))
    for _ in range(300):
        if following.done() or (followed and followed[-1] >= seqs[-1]):
            break
        await asyncio.sleep(0.1)
    assert not following.done()
    assert followed == seqs
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.close()
    await bus.close()
