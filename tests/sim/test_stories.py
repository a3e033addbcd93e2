"""Single stories, told on purpose: what once went wrong stays right."""

import asyncio
from collections.abc import Callable

import pytest

from shared.bus import topology
from shared.events import model as ev
from shared.events import subjects
from tests.sim import checks
from tests.sim.clients import Client
from tests.sim.faults.network import Odds
from tests.sim.run import ask_for, live_through
from tests.sim.world import Process, World
from tests.support.waiting import until


def calls(world: World) -> list[str]:
    return [entry.key for entry in world.ledger]


async def begin(world: World, book: str, *, schedulers: int = 1, workers: int = 1) -> None:
    """All services are up, then the one request of the story is made."""
    await world.open(1, schedulers, workers)
    await asyncio.sleep(1.0)
    world.asked = [ask_for(book, "e0")]
    await world.publish(world.asked[0])


async def reached(moment: Callable[[], object], what: str) -> None:
    """The story goes on there."""
    await until(moment, what, 10.0, every_s=0.001)


async def finish(world: World) -> None:
    await world.drain("at the end of the story")
    await world.stop_all()


def client(world: World, name: str) -> Client:
    found = next(p.client for p in world.processes if p.name == name)
    assert found is not None
    return found


def test_late_acknowledgement_of_a_zombie_does_not_lose_the_run() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/long", workers=2)
        await asyncio.sleep(3.0)
        holder = next(p for p in world.processes if p.client and p.client.name == world.ledger[-1].worker)
        other = next(p for p in world.processes if p.kind == "worker" and p is not holder)
        assert holder.client is not None
        assert other.client is not None
        holder.client.freeze()
        await asyncio.sleep(17.0)  # its lease is over, the other worker has claimed the run
        assert world.ledger[-1].worker == other.client.name
        holder.client.thaw()
        await asyncio.sleep(6.0)  # it has finished, reported for nothing, and acknowledged
        world.crash(other.client.name)
        await finish(world)

    assert checks.check(live_through(story)) == []


@pytest.mark.parametrize("frozen", ["scheduler0", "scheduler1"])
def test_second_owner_of_a_partition_does_not_make_a_finished_task_run_again(frozen: str) -> None:
    async def story(world: World) -> None:
        await world.open(1, 2, 1)
        await asyncio.sleep(1.0)
        client(world, frozen).freeze()
        world.asked = [ask_for("sim/choice", f"e{k}") for k in range(4)]
        for asked in world.asked:
            await world.publish(asked)
        await reached(lambda: len(checks.read_histories(world)) == 4, "four executions have begun")
        client(world, "router0").freeze()  # so that the ends of these runs are in no decision
        await asyncio.sleep(6.0)
        assert len(world.ledger) == 4
        client(world, frozen).thaw()  # it still believes that it owns its partitions
        await asyncio.sleep(0.2)
        client(world, "router0").thaw()
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


def test_queue_lost_before_the_scheduler_has_seen_it_is_noticed() -> None:
    async def story(world: World) -> None:
        world.network.deaf_to = {("state", topology.COMMANDS)}
        await world.open(1, 1, 1)
        client(world, "worker0").freeze()
        await asyncio.sleep(1.0)
        world.asked = [ask_for("sim/chain", "e0")]
        await world.publish(world.asked[0])
        await asyncio.sleep(1.0)
        world.broker.wipe(topology.COMMANDS)
        world.network.deaf_to = set()
        client(world, "worker0").thaw()
        async with asyncio.timeout(10.0):  # long before the sweep would find it
            await world.drain("soon after the loss")
        await finish(world)

    assert checks.check(live_through(story)) == []


def test_worker_that_dies_in_a_pipeline_is_taken_over_after_the_last_finished_task() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/pages", workers=2)
        await reached(lambda: len(world.ledger) == 3, "the third call")
        world.crash(world.ledger[-1].worker)
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) - len(set(calls(world))) <= 1, "only the call in flight comes again"


def test_wiped_cursors_and_snapshots_change_nothing() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/parallel")
        await asyncio.sleep(0.5)
        for bucket in (topology.CURSORS, topology.CTX, topology.LOOPS):
            world.broker.wipe(f"KV_{bucket}")
        for name in ("router0", "scheduler0"):
            world.crash(client(world, name).name)
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


def test_a_lost_consumer_of_requests_comes_again_behind_what_was_done() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/parallel")
        await asyncio.sleep(3.0)  # a router has seen where it stands
        del world.broker.queues[topology.REQUESTS, "router"]
        later = ask_for("sim/parallel", "e-later")
        world.asked.append(later)
        await world.publish(later)
        await finish(world)
        assert world.broker.queues[topology.REQUESTS, "router"].config.after > 0

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


def test_router_that_reads_from_a_replica_behind_loses_no_decision() -> None:
    async def story(world: World) -> None:
        await world.open(1, 1, 1)
        client(world, "worker0").freeze()
        world.asked = [ask_for("sim/parallel", "e0")]
        await world.publish(world.asked[0])
        await reached(lambda: len(checks.read_histories(world).get("e0", ())) == 2, "two records")
        world.network.lagging = {"router0#2"}
        world.crash(client(world, "router0").name)
        await asyncio.sleep(12.0)  # it has come back and was told of the loop before it could read of it
        assert client(world, "router0").name == "router0#2"
        world.network.lagging = set()
        client(world, "worker0").thaw()
        await finish(world)

    assert checks.check(live_through(story)) == []


def test_worker_that_reads_from_a_replica_behind_repeats_no_finished_task() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/long", workers=2)
        await reached(lambda: len(world.ledger) == 2, "the second call")  # the first task is done, the second under way
        world.network.lagging = {"worker0#1", "worker1#1", "worker0#2", "worker1#2"}
        world.crash(world.ledger[-1].worker)
        await asyncio.sleep(20.0)
        world.network.lagging = set()
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert calls(world).count("e0/start:1/one/1") == 1


def holder_of(world: World) -> tuple[Process, Process]:
    """The worker that made the last call, and the other one."""
    holder = next(p for p in world.processes if p.client and p.client.name == world.ledger[-1].worker)
    return holder, next(p for p in world.processes if p.kind == "worker" and p is not holder)


def test_a_local_loop_is_handed_back_when_its_worker_stops() -> None:
    ended: list[float] = []

    async def story(world: World) -> None:
        await begin(world, "sim/local", workers=2)
        await reached(lambda: len(world.ledger) > 2, "the third call")
        holder, other = holder_of(world)
        assert other.client is not None
        began = asyncio.get_running_loop().time()
        holder.stop.set()
        await reached(lambda: world.ledger[-1].worker == other.client.name, "the other calls")
        assert holder.task is not None
        await asyncio.wait({holder.task})
        ended.append(asyncio.get_running_loop().time() - began)
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert ended[0] < 5.0, "the next worker waited for the end of a lease"
    assert len(calls(world)) == len(set(calls(world))), "something was called twice"


def test_nothing_a_zombie_says_of_its_local_loop_counts_once_another_worker_has_it() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/local", workers=2)
        await reached(lambda: len(world.ledger) > 2, "the third call")
        holder, other = holder_of(world)
        assert holder.client is not None
        assert other.client is not None
        holder.client.freeze()
        await asyncio.sleep(14.0)  # nearly the lease
        await reached(lambda: world.ledger[-1].worker == other.client.name, "the other calls")
        holder.client.thaw()
        await finish(world)

    assert checks.check(live_through(story)) == []


def test_rows_that_a_zombie_holds_are_neither_claimed_nor_lost() -> None:
    async def story(world: World) -> None:
        await begin(world, "sim/cursor", workers=2)
        await reached(lambda: any(world.table.locked("e0")), "a locked row")
        (name,) = {owner.name for owner in world.table.locked("e0")}
        client(world, name.partition("#")[0]).freeze()
        await asyncio.sleep(20.0)  # the other worker has claimed the frame, and found what was left
        client(world, name.partition("#")[0]).thaw()
        await finish(world)
        assert world.table.taken["e0"] == {3}

    assert checks.check(live_through(story)) == []


@pytest.mark.parametrize(("recorded", "again"), [(False, 0), (True, 3)])
def test_a_worker_that_dies_before_the_commit_of_its_claim_loses_no_row(recorded: bool, again: int) -> None:
    """Before the record nothing has happened; after it the loop has the rows, and they come again."""
    async def story(world: World) -> None:
        await begin(world, "sim/cursor", workers=2)
        await reached(lambda: any(world.table.locked("e0")), "a locked row")
        (name,) = {owner.name for owner in world.table.locked("e0")}
        if recorded:
            await reached(lambda: any(
                isinstance(event, ev.FrameClaimed)
                for _, record in checks.read_histories(world)["e0"] for event in record.events
            ), "the claim is recorded")
        world.crash(name)
        await finish(world)
        assert world.table.taken["e0"] == {0, 1, 2, 3}

    world = live_through(story)
    assert checks.check(world) == []
    assert len([key for key in calls(world) if "start:1" in key]) == 4 + again


def test_a_paused_local_loop_begins_nothing_and_goes_on_when_it_is_resumed() -> None:
    made: list[int] = []

    async def story(world: World) -> None:
        await begin(world, "sim/local", workers=2)
        await reached(lambda: len(world.ledger) > 2, "the third call")
        await world.want(subjects.PAUSE, world.asked[0])
        await asyncio.sleep(3.0)
        made.append(len(world.ledger))
        await asyncio.sleep(60.0)  # long enough for a sweep of the queue
        made.append(len(world.ledger))
        await world.want(subjects.RESUME, world.asked[0])
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert made[0] == made[1] < 14
    assert len(calls(world)) == len(set(calls(world))) == 15, "something was called twice, or not at all"


def test_a_request_whose_first_record_was_refused_in_passing_is_not_lost() -> None:
    """On a cluster a write of the subject may have been on its way, and be lost with its leader."""

    async def story(world: World) -> None:
        await world.open(1, 1, 1)
        await asyncio.sleep(1.0)
        world.network.odds = Odds(crossed=1.0)
        world.asked = [ask_for("sim/choice", "e0")]
        await world.publish(world.asked[0])
        await asyncio.sleep(0.5)
        world.network.odds = Odds()
        await finish(world)

    assert checks.check(live_through(story)) == []


def test_a_worker_stopped_as_it_is_given_a_command_does_not_go_on_beside_the_next_one() -> None:
    """It goes on before its lease is over, and the command is not given to another meanwhile."""

    async def story(world: World) -> None:
        await world.open(1, 1, 2)
        await asyncio.sleep(1.0)
        client(world, "worker0").pauses["take"] = 12.5
        client(world, "worker1").freeze()  # so that the first one gets it
        world.asked = [ask_for("sim/slow", "e0")]
        await world.publish(world.asked[0])
        await reached(lambda: not client(world, "worker0").pauses, "no pause is left")
        client(world, "worker1").thaw()
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))
