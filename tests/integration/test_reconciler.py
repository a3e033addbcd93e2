"""The reconciler on a real broker, with workers that only say they are there."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from services.pools.backends import Attended, External, Running
from services.pools.reconcile import Reconciler
from shared.bus import pool_consumer, topology
from shared.bus.jetstream import JetStreamBus
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool, plain
from shared.engine.pools.reconcile import CRASHING_S
from shared.events import demand, subjects
from shared.events.beat import Beat
from shared.runtime.stores import pool_state, pools
from shared.runtime.stores.demand import LISTEN_S, Demands
from shared.runtime.stores.pool_state import PoolState
from shared.runtime.stores.pools import Crash, Drain, Leader, Pause, WorkerStatus
from tests.support.clock import MovedClock
from tests.support.waiting import until


class Scripted:
    """Workers are names; `lacks` is what they need and do not have."""

    def __init__(self) -> None:
        self.running: dict[str, Running] = {}
        self.ended: list[tuple[str, float]] = []
        self.killed: list[str] = []
        self.lacks = ""

    def attend(self, look: Attended) -> None:
        self.attended = look

    def missing(self, pool: Pool) -> str:
        return self.lacks

    def start(self, pool: Pool, template: str, count: int) -> None:
        for _ in range(count):
            name = f"{pool.name}-{len(self.running) + len(self.ended) + 1}"
            self.running[name] = Running(WorkerStatus(name, pid=7), template)

    def stop(self, name: str, within_s: float) -> None:
        del self.running[name]
        self.ended.append((name, within_s))

    def kill(self, name: str, why: str) -> None:
        self.killed.append(name)

    def workers(self, pool: str) -> Sequence[Running]:
        return [each for name, each in self.running.items() if name.startswith(f"{pool}-")]

    def pools(self) -> Sequence[str]:
        return sorted({name.rpartition("-")[0] for name in self.running})

    async def close(self, within_s: float) -> None:
        self.running.clear()


class World:
    def __init__(self, bus: JetStreamBus) -> None:
        self.bus, self.backend, self.clock = bus, Scripted(), MovedClock()
        self.demands = Demands(bus, self.clock)
        self.reconciler = self.another()

    def another(self) -> Reconciler:
        backends = {"process": self.backend, "external": External(), "kubernetes": self.backend}
        return Reconciler(self.bus, self.clock, backends, self.demands)

    async def passes(self, seconds: float) -> PoolState:
        """With looks in between, as often as they are made."""
        for _ in range(int(seconds / 0.5)):
            self.clock.passed += 0.5
            await self.reconciler.look()
        return await self.look()

    async def apply(self, source: str) -> None:
        pool = compile_pool(source).document
        assert pool is not None
        await pools.apply(self.bus, pool, source, "ada", time.time())

    async def say(self, **fields: object) -> None:
        await pools.change(self.bus, "gpu", "ada", time.time(), lambda entry: replace(entry, **fields))

    async def beat(self, *held: str) -> None:
        """Every worker says that it is there; the first one holds these runs."""
        for name in self.backend.running:
            beat = Beat(name, "gpu", 4, [("x", run, -1) for run in held], pid=7)
            await self.bus.kv_put(topology.WORKERS, f"gpu.{name}", msgspec.json.encode(beat))
            held = ()

    async def beat_of(self, name: str) -> None:
        await self.bus.kv_put(topology.WORKERS, f"gpu.{name}", msgspec.json.encode(Beat(name, "gpu", 4, pid=7)))

    async def look(self) -> PoolState:
        """After two looks: one acts, the next one sees what came of it."""
        for _ in range(2):
            await self.reconciler.look()
        await self.bus.kv_put(topology.POOLS, pools.LEADER, msgspec.json.encode(Leader("me", time.time())))
        return await pool_state.read(self.bus, "gpu", time.time())


@pytest.fixture
def world(admin: JetStreamBus) -> World:
    return World(admin)


async def test_workers_are_started_and_the_pool_is_ready_when_they_say_so(world: World) -> None:
    await world.apply(plain("gpu", 2))
    state = await world.look()
    assert (state.state, len(world.backend.running), state.ready) == ("scaling", 2, 0)
    assert [worker.state for worker in state.workers] == ["starting", "starting"]
    await world.beat()
    state = await world.look()
    assert (state.state, state.ready, state.status.settled) == ("ready", 2, True)


async def test_what_is_missing_is_said_and_waited_for(world: World) -> None:
    world.backend.lacks = "no account: add the pool to the server configuration"
    await world.apply(plain("gpu", 1))
    state = await world.look()
    assert (state.state, state.message, world.backend.running) == ("waiting", world.backend.lacks, {})
    world.backend.lacks = ""
    await world.bus.requests.api(f"CONSUMER.DELETE.{topology.COMMANDS}.gpu")
    state = await world.look()
    assert (state.state, state.message) == ("waiting", "no consumer on NOETL_COMMANDS: a scheduler makes it")
    assert state.pending is None
    await pool_consumer.ensure(world.bus, {"gpu": ""})
    assert (await world.look()).state == "scaling"


async def test_delivery_stops_and_goes_on_as_people_want_also_on_a_new_consumer(world: World) -> None:
    await world.apply(plain("gpu", 0))
    await world.say(paused=Pause("ada", time.time(), "upgrade"))
    state = await world.look()
    assert (state.state, state.delivers, state.paused and state.paused.note) == ("paused", False, "upgrade")
    await world.bus.requests.api(f"CONSUMER.DELETE.{topology.COMMANDS}.gpu")
    await pool_consumer.ensure(world.bus, {"gpu": ""})
    assert not (await world.look()).delivers
    await world.say(paused=Pause("ada", time.time(), "", time.time() + 3600))
    assert not (await world.look()).delivers
    queue = await pool_consumer.look(world.bus, "gpu")
    assert queue is not None
    assert queue.paused_until != pool_consumer.FOR_EVER
    await world.say(paused=None)
    await world.look()
    queue = await pool_consumer.look(world.bus, "gpu")
    assert queue is not None
    assert queue.paused_until < pool_consumer.moment(time.time() + 1)


async def test_a_drain_waits_for_what_is_held_and_then_ends_the_workers(world: World) -> None:
    await world.apply(plain("gpu", 1))
    await world.bus.append("noetl.commands.gpu.x.r1", b"m")
    consumer = await world.bus.consume(topology.COMMANDS, "gpu", 1)
    (held,) = await consumer.batch(1)
    await world.look()
    await world.beat("r1")
    await world.say(drain=Drain("ada", time.time(), 60.0))
    state = await world.look()
    assert (state.state, state.delivers, world.backend.ended) == ("draining", False, [])
    await held.ack()
    await world.bus.append("noetl.commands.gpu.x.r2", b"m")
    for _ in range(20):
        state = await world.look()
        if state.state == "drained":
            break
    assert (state.state, world.backend.ended) == ("drained", [("gpu-1", 0.0)])
    assert state.status.drain is not None
    assert msgspec.to_builtins(state.status.drain.report) == {"finished": 1, "left": 0, "handed_back": 0}
    assert state.pending == 1
    await consumer.close()


async def test_workers_of_a_pool_that_is_gone_or_became_anothers_end(world: World) -> None:
    await world.apply(plain("gpu", 1))
    await world.look()
    await world.apply(plain("gpu", backend="external"))
    state = await world.look()
    assert (state.backend, [name for name, _ in world.backend.ended]) == ("external", ["gpu-1"])
    await world.apply(plain("gpu", 1))
    await world.look()
    await pools.delete(world.bus, "gpu")
    await world.bus.kv_put(topology.POOLS, "status.gpu", b"{}")  # written by a look that began before
    await world.reconciler.look()
    assert world.backend.running == {}
    assert "status.gpu" not in await world.bus.kv_all(topology.POOLS)


async def test_an_external_pool_is_as_its_workers_say(world: World) -> None:
    await world.apply(plain("gpu", backend="external"))
    state = await world.look()
    assert (state.state, state.desired) == ("empty", None)
    assert "NOETL_POOL=gpu" in state.message
    beat = Beat("abroad", "gpu", 4, [("x", "r", -1)], host="there", pid=9)
    await world.bus.kv_put(topology.WORKERS, "gpu.abroad", msgspec.json.encode(beat))
    state = await world.look()
    assert (state.state, state.ready, state.busy) == ("ready", 1, 1)


async def test_a_worker_whose_beats_stop_is_silent_since_then_and_killed_at_last(world: World) -> None:
    await world.apply(plain("gpu", 2))
    await world.look()
    await world.beat()
    await world.look()
    stopped = world.clock.now()
    for _ in range(3):
        await world.passes(3.0)
        await world.beat_of("gpu-1")
    state = await world.look()
    assert (state.state, state.ready) == ("silent", 1)
    (_, silent) = state.workers
    assert (silent.name, silent.state, silent.silent_since) == ("gpu-2", "silent", pytest.approx(stopped, abs=2.0))
    assert "gpu-2 has said nothing since" in state.message
    assert world.backend.killed == []
    for _ in range(8):
        await world.passes(3.0)
        await world.beat_of("gpu-1")
    assert set(world.backend.killed) == {"gpu-2"}
    await world.beat()
    assert (await world.look()).state == "ready"


async def test_time_in_which_nobody_listened_is_no_silence(world: World) -> None:
    await world.apply(plain("gpu", 1))
    await world.look()
    await world.beat()
    assert (await world.look()).state == "ready"
    world.clock.passed += 600.0
    assert ((await world.look()).state, world.backend.killed) == ("ready", [])


async def test_ends_of_workers_are_remembered_by_the_next_reconciler(world: World) -> None:
    await world.apply(plain("gpu", 1))
    await world.look()
    await world.beat()
    ends = tuple(Crash(world.clock.now() - ago, "gpu-1", "exit code -9", "gpu.log") for ago in (9.0, 5.0, 1.0))
    world.backend.running["gpu-1"] = replace(world.backend.running["gpu-1"], crashes=ends)
    assert (await world.look()).state == "crashing"
    world.backend.running["gpu-1"] = replace(world.backend.running["gpu-1"], crashes=())
    world.reconciler = world.another()
    state = await world.look()
    assert state.state == "crashing"
    assert state.message.startswith("its workers ended by themselves 3 times in 5 minutes, the last of them gpu-1 with "
                                    "exit code -9 at ")
    world.clock.passed += CRASHING_S
    assert (await world.look()).state == "ready"


async def test_a_document_that_cannot_be_read_harms_no_other(world: World) -> None:
    await world.apply(plain("gpu", 1))
    await world.apply(plain("bad", 1))
    await pools.change(world.bus, "bad", "eve", time.time(), lambda entry: replace(entry, source="kind: Nonsense"))
    await world.reconciler.look()
    status = pools.status(await world.bus.kv_all(topology.POOLS), "bad")
    assert (status.state, "not valid" in status.message, len(world.backend.running)) == ("failing", True, 1)


SCALED = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: gpu}\nspec: {autoscaling: {%s}}\n"


async def holds(world: World, scheduler: str, count: int) -> None:
    """A scheduler says so, and is heard."""
    before = world.demands.held("gpu")
    await world.bus.publish(subjects.demand(scheduler), demand.encode(scheduler, {"gpu": count}))
    await until(lambda: world.demands.held("gpu"), "it is heard", so=lambda found: found != before)


@pytest.fixture
async def listening(world: World) -> AsyncIterator[World]:
    task = asyncio.create_task(world.demands.listen())
    await asyncio.sleep(0.2)
    world.clock.passed += LISTEN_S
    yield world
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pool_follows_its_demand_up_at_once_and_down_when_it_is_calm(listening: World) -> None:
    world = listening
    await world.apply(SCALED % "min: 0, max: 5, target: 10, calm_s: 60")
    await world.passes(61)
    assert (await world.look()).desired == 0
    await holds(world, "s1", 25)
    state = await world.look()
    assert (state.desired, len(world.backend.running)) == (3, 3)
    await holds(world, "s2", 100)
    assert (await world.look()).desired == 5
    await world.bus.publish(subjects.demand("s1"), demand.encode("s1", {}))
    await holds(world, "s2", 0)
    assert (await world.passes(5)).desired == 5
    world.reconciler = world.another()  # the next leader begins with what is there
    assert (await world.passes(30)).desired == 5
    assert (await world.passes(31)).desired == 0
    assert (await world.look()).state == "empty"


async def test_nothing_is_scaled_by_a_demand_that_nobody_knows_or_while_nothing_is_delivered(listening: World) -> None:
    world = listening
    await world.apply(SCALED % "min: 0, max: 5, target: 10, calm_s: 1")
    await holds(world, "s1", 25)
    assert (await world.look()).desired == 3
    await world.say(paused=Pause("ada", time.time(), "upgrade"))
    await holds(world, "s1", 5)
    assert (await world.passes(3)).desired == 3
    await world.say(paused=None)
    await world.bus.requests.api(f"CONSUMER.DELETE.{topology.COMMANDS}.gpu")
    assert (await world.passes(3)).desired == 3
    await pool_consumer.ensure(world.bus, {"gpu": ""})
    await holds(world, "s1", 6)
    assert (await world.passes(3)).desired == 1


async def test_workers_with_a_machine_of_their_own_are_known_by_it(world: World) -> None:
    await world.apply(plain("gpu", 1, backend="kubernetes"))
    await world.look()
    (name,) = world.backend.running
    world.backend.running[name] = Running(WorkerStatus(name, host="pod-1"), "r0")
    beat = Beat("w-1-tag", "gpu", 4, [("x", "r", -1)], host="pod-1", pid=1)
    await world.bus.kv_put(topology.WORKERS, "gpu.w-1-tag", msgspec.json.encode(beat))
    state = await world.look()
    assert (state.state, state.status.settled) == ("ready", True)
    assert (world.backend.attended.held, world.backend.attended.template) == ({"pod-1": 1}, "r0")
    await world.say(restarts=1)
    await world.look()
    assert world.backend.attended.template == "r1"


async def test_what_keda_scales_is_only_watched(world: World) -> None:
    await world.apply(SCALED.replace("spec: {", "spec: {backend: kubernetes, ") % "mode: keda")
    state = await world.look()
    assert (world.backend.running, state.desired, state.state) == ({}, None, "empty")
    assert state.message == "no worker is there: KEDA starts them by demand"
