"""The reconciler, a real broker and Pods of a Kubernetes API, whose workers say that they are there."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from services.pools.reconcile import Reconciler
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.events.beat import Beat
from shared.runtime.stores import pool_state, pools
from shared.runtime.stores.demand import Demands
from shared.runtime.stores.pool_state import PoolState
from shared.runtime.stores.pools import Drain, Leader
from tests.contract.kube import world as kube
from tests.contract.kube.world import CREATE, ROLE, Cluster
from tests.support.clock import MovedClock
from tests.support.waiting import until


class World:
    def __init__(self, bus: JetStreamBus, cluster: Cluster) -> None:
        self.bus, self.cluster, self.clock = bus, cluster, MovedClock()
        cluster.pool = replace(cluster.pool, name="gpu")
        self.reconciler = Reconciler(bus, self.clock, {"kubernetes": cluster.backend}, Demands(bus, self.clock))
        self.busy: dict[str, int] = {}

    async def begin(self, workers: int) -> None:
        source = plain("gpu", workers, backend="kubernetes")
        pool = compile_pool(source).document
        assert pool is not None
        await pools.apply(self.bus, pool, source, "ada", time.time())

    async def say(self, **fields: object) -> None:
        await pools.change(self.bus, "gpu", "ada", time.time(), lambda entry: replace(entry, **fields))

    async def look(self) -> PoolState:
        """Every Pod has a worker that beats."""
        there = await self.cluster.names()
        for name in there:
            held = [("x", f"r{n}", -1) for n in range(self.busy.get(name, 0))]
            beat = Beat(f"{name}-1", "gpu", 4, held, host=name, pid=1, started=1.0)
            await self.bus.kv_put(topology.WORKERS, f"gpu.{name}-1", msgspec.json.encode(beat))
        for key in await self.bus.kv_all(topology.WORKERS):
            if key.removeprefix("gpu.").removesuffix("-1") not in there:
                await self.bus.kv_delete(topology.WORKERS, key)
        await self.reconciler.look()
        await self.bus.kv_put(topology.POOLS, pools.LEADER, msgspec.json.encode(Leader("me", time.time())))
        return await pool_state.read(self.bus, "gpu", time.time())

    async def becomes(self, state: str, count: int) -> list[str]:
        """The Pods that there are then."""
        await until(self.look, f"{count} workers, {state}", 20.0, so=lambda found: (
            found.state == state and len(found.status.workers) == count == len(found.workers)))
        return await self.cluster.names()


@pytest.fixture
async def world(admin: JetStreamBus, tmp_path: Path) -> AsyncIterator[World]:
    async with kube.cluster(tmp_path) as cluster:
        await cluster.allow(ROLE | CREATE)
        cluster.another(create=True)
        yield World(admin, cluster)


async def test_the_life_of_a_pool(world: World) -> None:
    await world.begin(3)
    first = await world.becomes("ready", 3)
    world.busy = {first[0]: 2, first[1]: 1}
    await world.say(workers=1)
    assert await world.becomes("ready", 1) == first[:1]  # the one with the most to finish stays
    await world.say(restarts=1)
    assert not set(await world.becomes("ready", 1)) & set(first)
    await world.say(drain=Drain("ada", time.time(), 30.0))
    assert await world.becomes("drained", 0) == []
    await world.say(drain=None, workers=2)
    await world.becomes("ready", 2)
    await world.say(deleting=True)
    await world.becomes("deleting", 0)
    assert await world.cluster.found() is None


async def test_a_drain_waits_for_what_workers_hold(world: World) -> None:
    await world.begin(2)
    names = await world.becomes("ready", 2)
    world.busy = {names[0]: 1}
    await world.bus.append("noetl.commands.gpu.x.r0", b"{}")
    consumer = await world.bus.consume(topology.COMMANDS, "gpu", 1)
    (delivery,) = await consumer.batch(1)
    await world.say(drain=Drain("ada", time.time(), 600.0))
    for _ in range(5):
        assert (await world.look()).state == "draining"
    assert await world.cluster.names() == names
    world.busy = {}
    await delivery.ack()
    await consumer.close()
    assert await world.becomes("drained", 0) == []


async def test_a_restart_waits_for_pods_that_kubernetes_takes_for_ready(world: World) -> None:
    """A worker says that it is there before its Pod is found ready, and of Pods that are too many, Kubernetes deletes
    those first that are not: the new one would go, and another come, for ever."""
    await world.begin(2)
    before = await world.becomes("ready", 2)
    world.cluster.fake.prompt = False
    await world.say(restarts=1)
    await until(world.look, "one more", so=lambda found: len(found.workers) == 3)
    for _ in range(20):
        assert (await world.look()).state == "scaling"
    there = await world.cluster.names()
    assert set(before) < set(there), "an old one or the new one went too early"
    world.cluster.fake.probe()
    world.cluster.fake.prompt = True
    assert not set(await world.becomes("ready", 2)) & set(before)


async def test_a_deletion_that_the_api_refuses_says_so(world: World) -> None:
    await world.begin(1)
    await world.becomes("ready", 1)
    await world.cluster.allow((ROLE | CREATE) - {("deployments", "delete")})
    await world.say(deleting=True)
    found = await until(world.look, "why", so=lambda state: "forbidden" in state.message)
    assert found.state == "deleting"
    await world.cluster.allow(ROLE | CREATE)
    await world.becomes("deleting", 0)


async def test_what_the_api_refuses_is_what_the_pool_says(world: World) -> None:
    await world.cluster.allow(ROLE)
    await world.begin(1)
    found = await until(world.look, "it waits", so=lambda state: "forbidden" in state.message)
    assert found.state == "waiting"
    await world.cluster.allow(ROLE | CREATE)
    await world.becomes("ready", 1)
