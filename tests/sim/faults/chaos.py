"""What goes wrong, when: drawn from the seed of the world."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from shared.bus import kv, topology
from shared.events import subjects
from tests.sim.clients import Client
from tests.sim.faults.network import Odds
from tests.sim.loop import now

if TYPE_CHECKING:
    from tests.sim.world import Process, World

OUTAGE_S = 150.0  # longer than the window in which the broker knows message ids
PAUSES_S = (2.0, 25.0)
AROUND_S = (10.0, 15.5)  # around the end of a lease
FRESH_STILL_S = (4.0, 9.5)  # longer than a member may be silent, and less than a command is fresh
NEARLY_S = (10.0, 13.0)  # most of a lease: what is left is less than the time between two extensions


async def rage(world: "World", span: float) -> None:
    rng = world.rng
    world.network.odds = Odds(
        rng.choice((0.0, 0.0, 0.01, 0.05)), rng.choice((0.0, 0.0, 0.01, 0.05)), rng.choice((0.0, 0.01, 0.05)),
        rng.choice((0.0, 0.0, 0.2)), rng.choice((0.0, 0.0, 0.02, 0.1)), rng.choice((0.0, 0.0, 0.3)),
        rng.choice((0.0, 0.0, 0.1, 0.5)), rng.choice((0.0, 0.0, 0.02, 0.1)),
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


async def pause_at_a_command(world: "World") -> None:
    """A worker is stopped just as it is given a command, and goes on before or after the lease is over."""
    if (client := _one_of(world, "worker")) is not None:
        client.pauses["take"] = world.rng.uniform(*world.rng.choice((PAUSES_S, AROUND_S)))


async def nearly_lose_a_lease(world: "World") -> None:
    """Every worker is stopped as it is given its next command, and goes on while there is a little left of the lease:
    whoever does not extend it at the claim loses the run to another one. Nothing else happens until it is over."""
    for process in world.processes:
        if process.kind == "worker" and process.client is not None and not process.client.dead:
            process.client.pauses["take"] = world.rng.uniform(*NEARLY_S)
    await world.ask_for("sim/slow")
    await asyncio.sleep(topology.COMMAND_LEASE_S + 1.0)


async def pause_at_a_word(world: "World") -> None:
    """A router or scheduler is stopped between its last look and what it says, or right after it."""
    if (client := _one_of(world, "router", "scheduler")) is not None:
        client.pauses[world.rng.choice(("deliver", "read", "send"))] = world.rng.uniform(*PAUSES_S)


async def stop_with_a_fresh_command(world: "World") -> None:
    """A scheduler is stopped with a fresh command in hand, and goes on while that is still believed: another one may
    have sent it, and its run may have left the queue for a wait."""
    asked = await world.ask_for("sim/naps")
    command = subjects.command("default", asked.execution_id, "start:1", world.rng.randint(1, 2))
    world.network.stops[command] = world.rng.uniform(*FRESH_STILL_S)


async def silence(world: "World") -> None:
    if (client := _victim(world)) is not None:
        client.silence(world.rng.uniform(*PAUSES_S), cut=world.rng.random() < 0.5)


async def split(world: "World") -> None:
    """Members do not hear each other: two believe that a partition is theirs."""
    alive = [p.client.name for p in world.processes if p.client is not None and p.kind != "worker"]
    apart = {name for name in alive if world.rng.random() < 0.5}
    world.network.apart |= apart
    asyncio.get_running_loop().call_later(world.rng.uniform(5.0, 20.0), world.network.apart.difference_update, apart)


async def move_floor(world: "World") -> None:
    """A message of the queue that someone holds is neither pending nor held any more; then its holder may die."""
    for (name, _), queue in world.broker.queues.items():
        if name == topology.COMMANDS and queue.deliveries:
            seq = world.rng.choice(sorted(queue.deliveries))
            if world.rng.random() < 0.5:
                queue.forget(seq)
            elif seq in world.broker.streams[name].stored:  # by hand, and the next acknowledgement moves the floor
                world.broker.purge(name, world.broker.streams[name].stored[seq].message.subject)
    if world.rng.random() < 0.7:
        _kill_soon(world)


async def cancel_and_kill(world: "World") -> None:
    """Somebody cancels an execution, and a worker that may hold others dies."""
    asked = [each for each in world.asked if each.execution_id and not each.cancelled]
    if asked:
        wanted = world.rng.choice(asked)
        wanted.cancelled = True
        await world.want(subjects.CANCEL, wanted)
    _kill_soon(world)


def _kill_soon(world: "World") -> None:
    workers = [p for p in world.processes if p.kind == "worker"]
    asyncio.get_running_loop().call_later(world.rng.uniform(0.1, 5.0), _kill, world, world.rng.choice(workers))


def _one_of(world: "World", *kinds: str) -> Client | None:
    alive = [p.client for p in world.processes if p.kind in kinds and p.client is not None and not p.client.dead]
    return world.rng.choice(alive) if alive else None


def _kill(world: "World", process: "Process") -> None:
    if process.client is not None and not process.client.dead and not process.stop.is_set():
        world.crash(process.client.name)


async def outage(world: "World") -> None:
    world.broker.set_down(True)
    began = now()
    await asyncio.sleep(OUTAGE_S if world.rng.random() < 0.15 else world.rng.uniform(0.1, 8.0))
    world.broker.set_down(False)
    world.outages.append((began, now()))


async def lose_queue(world: "World") -> None:
    """The broker restarts: what it kept in memory is gone."""
    world.broker.set_down(True)
    began = now()
    await asyncio.sleep(world.rng.uniform(0.0, 3.0))
    world.outages.append((began, now()))
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
    world.network.leases.forget()
    world.broker.free_leases(stream)


FAULTS: dict[Callable[["World"], Awaitable[None]], int] = {
    crash_now: 3, crash_in_a_call: 6, freeze: 4, zombie: 2, outage: 2, lose_queue: 3, wipe_cursors: 1, deliver_again: 3,
    pause_at_a_command: 7, nearly_lose_a_lease: 3, pause_at_a_word: 3, stop_with_a_fresh_command: 3, silence: 4,
    split: 2, move_floor: 2, cancel_and_kill: 3,
}


async def step_clock(world: "World") -> None:
    """The wall clock of a machine is set: nothing may come of it."""
    process = world.rng.choice(world.processes)
    process.machine.ahead_s += world.rng.choice((-3600.0, -20.0, 20.0, 3600.0))


async def set_broker_clock(world: "World") -> None:
    """Forward by no more than is slewed: what a larger step makes late is late."""
    world.broker.stepped_s += world.rng.choice((-60.0, -4.0, -0.5, 0.5, 4.0))


FAULTS |= {step_clock: 3, set_broker_clock: 2}
