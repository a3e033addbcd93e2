"""Faults of brokers, one at a time: each is over, and the broker has everything again, before the next."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shared.bus.jetstream import JetStreamBus
from tests.chaos.cluster.recovery import Made
from tests.support.servers.nats_cluster import NatsCluster

KILLED_S = (0.5, 5.0)
STOPPED_S = (10.0, 30.0)
KILL, STOP, RESTART = "leader killed", "leader stopped", "restarted"


class Planned(NamedTuple):
    """`stream`: whose leader it hits."""

    kind: str
    stream: str
    lasts: float


def draw(seed: int, kills: int, stops: int, streams: Sequence[str]) -> list[Planned]:
    """The same for the same arguments. The leader of each stream is killed, and again from the beginning."""
    rng = random.Random(f"cluster/{seed}")
    turn = rng.sample(sorted(streams), len(streams))
    planned = [Planned(KILL, turn[k % len(turn)], rng.uniform(*KILLED_S)) for k in range(kills)]
    planned += [Planned(STOP, rng.choice(turn), rng.uniform(*STOPPED_S)) for _ in range(stops)]
    rng.shuffle(planned)
    return planned


class Faults:
    def __init__(self, brokers: NatsCluster, bus: JetStreamBus, tell: Callable[[str], None]) -> None:
        self._brokers, self._bus, self._tell = brokers, bus, tell
        self.made: list[Made] = []

    async def carry_out(self, planned: Planned) -> None:
        number = await self._brokers.leader(self._bus, planned.stream)
        at = time.time()
        if planned.kind == KILL:
            self._brokers.kill(number)
            await asyncio.sleep(planned.lasts)
            await asyncio.to_thread(self._brokers.start, number)
        else:
            self._brokers.freeze(number)
            await asyncio.sleep(planned.lasts)
            self._brokers.thaw(number)
        await self._settle(Made(planned.kind, f"{number}, of {planned.stream}", at, time.time(), 0.0))

    async def restart(self, number: int) -> None:
        """As for an upgrade: it is asked to end, and started when it has."""
        at = time.time()
        await asyncio.to_thread(self._brokers.nodes[number].restart)
        await self._settle(Made(RESTART, str(number), at, time.time(), 0.0))

    async def _settle(self, made: Made) -> None:
        await self._brokers.settled(self._bus)
        self.made.append(made._replace(current=time.time()))
        self._tell(f"{made.kind} {made.what}: away {made.back - made.at:.1f} s, current after "
                   f"{self.made[-1].current - made.back:.1f} s")
