"""What a dead worker held goes on with another one long before its lease is over, and what is lost in the queue is
found."""

import asyncio
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

from shared.bus import topology
from shared.events import model as ev
from shared.events import subjects
from shared.events.beat import Beat
from tests.sim import checks
from tests.sim.loop import now
from tests.sim.run import ask_for, live_through
from tests.sim.test_stories import begin, calls, client, finish, reached
from tests.sim.world import Asked, World


def claims(world: World, execution_id: str) -> list[str]:
    history = checks.read_histories(world).get(execution_id, [])
    return [
        record.lease.worker for _, record in history for event in record.events
        if record.lease is not None and isinstance(event, ev.StepStarted)
    ]


async def forget_what_it_held(world: World, worker: str) -> None:
    entry = await world.admin.kv_get(topology.WORKERS, worker)
    assert entry is not None
    beat = replace(msgspec.json.decode(entry.value, type=Beat), held=[], seqs=[])
    await world.admin.kv_put(topology.WORKERS, worker, msgspec.json.encode(beat))


@pytest.mark.parametrize("schedulers", [1, 2])
@pytest.mark.parametrize("how", ["dies", "is frozen"])
def test_worker_that_is_silent_is_taken_over_within_six_seconds(how: str, schedulers: int) -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/long", schedulers=schedulers, workers=2)
        await asyncio.sleep(3.0)
        holder = world.ledger[-1].worker
        if how == "dies":
            world.crash(holder)
        else:
            world.network.clients[holder].freeze()
        await asyncio.sleep(6.0)
        assert len(claims(world, "e0")) == 2
        world.network.clients[holder].thaw()
        await finish(world)

    assert checks.check(live_through(story)) == []


def released(world: World, execution_id: str) -> bool:
    history = checks.read_histories(world).get(execution_id, [])
    return any(isinstance(event, ev.LeaseReleased) for _, record in history for event in record.events)


@pytest.mark.parametrize("book", ["sim/slow", "sim/local"])
def test_a_worker_that_comes_back_to_what_another_has_handed_back_does_not_keep_it(book: str) -> None:
    """Its extension undoes the delay after which the command would have come again."""
    took: list[float] = []

    async def story(world: World) -> None:
        await world.open(1, 1, 2)
        await asyncio.sleep(1.0)
        stopped, other = client(world, "worker0"), client(world, "worker1")
        stopped.pauses["take"] = 60.0
        other.freeze()  # so that the first one gets it
        world.asked = [ask_for(book, "e0")]
        await world.publish(world.asked[0])
        await reached(lambda: not stopped.pauses, "it is stopped with the command")
        await asyncio.sleep(4.0)
        world.network.lagging = {other.name}  # it does not see its own claim, and hands the command back
        other.thaw()
        world.broker.queues[topology.COMMANDS, "default"].free_all(now())  # as when the broker is started again
        world.broker.wake()
        await reached(lambda: released(world, "e0"), "the other has handed it back")
        await asyncio.sleep(0.5)
        world.network.lagging = set()
        stopped.thaw()
        began, before = now(), len(claims(world, "e0"))
        await reached(lambda: len(claims(world, "e0")) > before, "somebody has it again")
        took.append(now() - began)
        await finish(world)

    assert checks.check(live_through(story)) == []
    assert took[0] < 7.0


def test_scheduler_that_was_away_takes_no_worker_for_dead() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/long", workers=2)
        await asyncio.sleep(3.0)
        client(world, "scheduler0").freeze()
        await asyncio.sleep(7.0)
        client(world, "scheduler0").thaw()
        await asyncio.sleep(3.0)
        assert len(claims(world, "e0")) == 1
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


@pytest.mark.parametrize("silent_s", [10.0, 18.0])
def test_outages_of_the_broker_cost_no_run_its_leases(silent_s: float) -> None:
    """Every worker was there all the time: none of them is lost, however often the run changes hands."""

    async def story(world: World) -> None:
        await begin(world, "sim/chain", workers=3)
        slow = ask_for("sim/long", "e1")
        world.asked.append(Asked(slow.book, {"takes": 120.0}, "", "e1"))
        await world.publish(world.asked[-1])
        await reached(lambda: claims(world, "e1"), "a worker has it")
        for _ in range(6):
            await asyncio.sleep(5.0)
            world.broker.set_down(True)
            began = now()
            await asyncio.sleep(silent_s)
            world.broker.set_down(False)
            world.outages.append((began, now()))
        await asyncio.sleep(2.0)
        lost.append(len(claims(world, "e1")) - 1)
        await finish(world)

    lost: list[int] = []
    world = live_through(story)
    assert checks.check(world) == []
    (end,) = [event for _, record in checks.read_histories(world)["e1"] for event in record.events
              if isinstance(event, ev.PlaybookProcessed)]
    assert end.status == "completed", end.error
    assert silent_s < 15.0 or lost[0] >= 2, "the story is about leases that come again"


def test_command_that_its_consumer_takes_for_done_is_issued_again() -> None:
    """Someone purged the queue by subject, and the worker that held another run died before a beat could name it."""

    async def story(world: World) -> None:
        with mock.patch.object(world.rng, "choice", max):  # of the slots it may have
            await world.open(1, 1, 1)
        await asyncio.sleep(1.0)
        world.asked = [ask_for("sim/long", "e0"), ask_for("sim/long", "e1"), ask_for("sim/chain", "e2")]
        for asked in world.asked:
            await world.publish(asked)
        await reached(lambda: len(claims(world, "e0")) == 1 and len(claims(world, "e1")) == 1, "both are claimed")
        world.broker.purge(topology.COMMANDS, f"{subjects.COMMANDS}.default.e1.>")
        await reached(lambda: world.broker.queues[topology.COMMANDS, "default"].state().floor > 2, "the queue goes on")
        world.crash(client(world, "worker0").name)
        await forget_what_it_held(world, "default.worker0")
        await finish(world)

    assert checks.check(live_through(story)) == []


def test_queue_lost_with_its_whole_cluster_is_noticed_by_its_sequences() -> None:
    async def story(world: World) -> None:
        await world.open(1, 1, 1)
        await asyncio.sleep(1.0)
        client(world, "worker0").freeze()
        world.asked = [ask_for("sim/chain", f"e{k}") for k in range(3)]
        for asked in world.asked:
            await world.publish(asked)
        await asyncio.sleep(3.0)
        world.broker.empty(topology.COMMANDS)
        client(world, "worker0").thaw()
        async with asyncio.timeout(10.0):  # long before the sweep would find it
            await world.drain("soon after the loss")
        await finish(world)

    assert checks.check(live_through(story)) == []
