"""A worker's user that writes what no worker of ours does: records of leases that do not fit, and that cannot be read.
Drawn apart from the other faults, so that a seed is the same world with and without them."""

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from shared.bus import topology
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, decode, encode

if TYPE_CHECKING:
    from tests.sim.world import World

PARTITIONS = 2  # of the world
ODDS = 0.5  # of a world in which someone does so
MOST = 12
GARBAGE = (b"", b"{}", b"\xff", b"[" * 5000, b'{"writer":"router"}')


async def forge(world: "World", span: float) -> None:
    rng = random.Random(f"forging {world.seed}")
    if rng.random() < ODDS:
        count = rng.randint(1, MOST)
        for _ in range(count):
            await asyncio.sleep(rng.uniform(0.0, 2 * span / count))
            _put(world, rng)


def _put(world: "World", rng: random.Random) -> None:
    partition = rng.randrange(PARTITIONS)
    stream = world.broker.streams[topology.events_stream(partition)]
    leased = [stored.message for seq, stored in sorted(stream.stored.items()) if (partition, seq) not in world.forged
              and subjects.parse_event(stored.message.subject).writer in subjects.LEASED]
    if not leased:
        return
    message = rng.choice(leased)
    data = rng.choice(GARBAGE)
    if rng.random() < 0.8:
        with suppress(Corrupt):
            data = encode(_unfit(rng, decode(message, PARTITIONS)))
    seq = stream.append(message.subject, data, None, None, world.broker.wall())
    world.broker.wake()
    world.forged.add((partition, seq))
    world.tell(f"forged        {message.subject} at {seq}")


def _unfit(rng: random.Random, record: Record) -> Record:
    """Later than every lease there is: it would count if it fitted."""
    lease = record.lease
    assert lease is not None
    lease = replace(lease, epoch=(lease.epoch[0] + 10**9, 1))
    match rng.randrange(5):
        case 0:
            lease = replace(lease, run_id=f"{lease.step}:99")
        case 1:
            lease = replace(lease, step="another")
        case 2:
            lease = replace(lease, run_id="no run")
        case 3:
            return replace(record, lease=lease, events=(ev.LeaseReleased(), ev.StepStarted()))
        case _ if record.writer == "iteration":
            lease = replace(lease, index=10**6)
        case _:
            lease = replace(lease, step="")
    return replace(record, lease=lease)
