"""What goes wrong, when: drawn from the seed of the world."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from shared.bus import kv, topology
from tests.sim.network import Client, Odds

if TYPE_CHECKING:
    from tests.sim.world import Process, World

OUTAGE_S = 150.0  # longer than the window in which the broker knows message ids


async def rage(world: "World", span: float) -> None:
    rng = world.rng
    world.network.odds = Odds(
        rng.choice((0.0, 0.0, 0.01, 0.05)), rng.choice((0.0, 0.0, 0.01, 0.05)), rng.choice((0.0, 0.01, 0.05)),
        rng.choice((0.0, 0.0, 0.2)), rng.choice((0.0, 0.0, 0.02, 0.1)), rng.choice((0.0, 0.0, 0.3)),
    )
    faults = rng.choices(list(FAULTS), weights=[FAULTS[fault] for fault in FAULTS], k=rng.randint(0, 10))
    times = sorted(rng.uniform(0.2, span) for _ in faults)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at, fault in zip(times, faults, strict=True):
        await asyncio.sleep(max(0.0, began + at - loop.time()))
        world.tell(f"fault         {fault.__name__}")
        await fault(world)
    await asyncio.sleep(max(0.0, began + span - loop.time()))


def _victim(world: "World") -> Client | None:
    alive = [p.client for p in world.processes if p.client is not None and not p.client.dead]
    return world.rng.choice(alive) if alive else None


async def crash_now(world: "World") -> None:
    if (client := _victim(world)) is not None:
        world.crash(client.name)


async def crash_in_a_call(world: "World") -> None:
    if (client := _victim(world)) is not None:
        client.crash_after = world.rng.randint(1, 40)


async def freeze(world: "World") -> None:
    """Frozen past its lease or its membership, then it goes on as if nothing had happened."""
    if (client := _victim(world)) is not None:
        client.freeze()
        asyncio.get_running_loop().call_later(world.rng.choice((1.0, 5.0, 18.0, 40.0)), client.thaw)


async def zombie(world: "World") -> None:
    """A worker is frozen past its lease; when it goes on, another one dies."""
    workers = [p for p in world.processes if p.kind == "worker" and p.client is not None and not p.client.dead]
    if len(workers) > 1:
        first, second = world.rng.sample(workers, 2)
        assert first.client is not None
        first.client.freeze()
        after = world.rng.uniform(15.5, 22.0)
        loop = asyncio.get_running_loop()
        loop.call_later(after, first.client.thaw)
        loop.call_later(after + world.rng.uniform(0.05, 3.0), _kill, world, second)


def _kill(world: "World", process: "Process") -> None:
    if process.client is not None and not process.client.dead and not process.stop.is_set():
        world.crash(process.client.name)


async def outage(world: "World") -> None:
    world.broker.set_down(True)
    await asyncio.sleep(OUTAGE_S if world.rng.random() < 0.15 else world.rng.uniform(0.1, 8.0))
    world.broker.set_down(False)


async def lose_queue(world: "World") -> None:
    """The broker restarts: what it kept in memory is gone."""
    world.broker.set_down(True)
    await asyncio.sleep(world.rng.uniform(0.0, 3.0))
    if world.rng.random() < 0.5 and topology.COMMANDS in world.broker.streams:
        world.broker.wipe(topology.COMMANDS)
    else:
        world.broker.lose(topology.COMMANDS)
    world.broker.set_down(False)


async def wipe_cursors(world: "World") -> None:
    for bucket in (topology.CURSORS, topology.CTX, topology.LOOPS):
        world.broker.wipe(kv.stream_of(bucket))


async def deliver_again(world: "World") -> None:
    stream = world.rng.choice((topology.COMMANDS, topology.COMMANDS, topology.REQUESTS))
    world.broker.free_leases(stream)


FAULTS: dict[Callable[["World"], Awaitable[None]], int] = {
    crash_now: 3, crash_in_a_call: 6, freeze: 4, zombie: 2, outage: 2, lose_queue: 3, wipe_cursors: 1, deliver_again: 3,
}
