"""The faults of a storm: drawn from its seed before it begins, carried out at their times, and what each was."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shared.bus.jetstream import JetStreamBus
from tests.chaos.storm.system import System

PAUSES_S = (2.0, 25.0)
BROKER_AWAY_S = (0.2, 4.0)
CLOCK_S = (20.0, 300.0)      # how far a clock is put forward or back
CLOCK_HELD_S = (3.0, 20.0)
BROKER = "broker"
WEIGHTS = {"kill": 30, "stop": 24, "reset": 20, "silent": 12, "clock": 10, "broker": 4, "freeze": 3}
CLUSTER_WEIGHTS = {**WEIGHTS, "broker": 0, "freeze": 0, "leader": 8, "node": 8}
LATE_S = 2.0  # how much later than planned a fault may come before the table says so


class Planned(NamedTuple):
    """`at` seconds after the storm began; `how` says the rest: a direction, an offset."""

    at: float
    kind: str
    victim: str
    lasts: float
    how: str = ""


class Fault(NamedTuple):
    """As it was carried out, by the harness's monotonic clock."""

    planned: Planned
    began: float
    ended: float

    @property
    def kind(self) -> str:
        return self.planned.kind

    @property
    def victim(self) -> str:
        return self.planned.victim

    def __str__(self) -> str:
        at, kind, victim, _, how = self.planned
        return f"{at:7.1f} s {kind:<7} {victim:<12} {self.ended - self.began:5.1f} s {how}"


def draw(seed: int, span_s: float, count: int, victims: Sequence[str], nodes: int = 1) -> list[Planned]:
    """The same for the same arguments; spread over the time, each a little earlier or later."""
    rng = random.Random(f"storm/{seed}")
    weights = CLUSTER_WEIGHTS if nodes > 1 else WEIGHTS
    planned = []
    for number in range(count):
        at = span_s * (number + rng.random()) / count
        kind = rng.choices(list(weights), weights=list(weights.values()))[0]
        planned.append(_one(rng, at, kind, rng.choice(victims), nodes))
    return planned


def _one(rng: random.Random, at: float, kind: str, victim: str, nodes: int) -> Planned:
    match kind:
        case "kill" | "reset":
            return Planned(at, kind, victim, 0.0)
        case "stop":
            return Planned(at, kind, victim, rng.uniform(*PAUSES_S))
        case "silent":
            ways = rng.choice(("both", "both", "up", "down"))
            return Planned(at, kind, victim, rng.uniform(*PAUSES_S), f"{ways}, then {rng.choice(('late', 'cut'))}")
        case "clock":
            ahead = rng.choice((-1, 1)) * rng.uniform(*CLOCK_S)
            return Planned(at, kind, victim, rng.uniform(*CLOCK_HELD_S), f"{ahead:+.0f} s")
        case "broker":
            return Planned(at, kind, BROKER, rng.uniform(*BROKER_AWAY_S))
        case "freeze":
            return Planned(at, kind, BROKER, rng.uniform(*PAUSES_S))
        case "leader":
            return Planned(at, kind, BROKER, rng.uniform(*BROKER_AWAY_S), f"of partition {rng.randrange(4)}")
        case _:
            return Planned(at, kind, BROKER, rng.uniform(*PAUSES_S), f"{rng.randrange(nodes)}")


class Storm:
    """Carries faults out; `made` grows as they end."""

    def __init__(
        self, system: System, bus: JetStreamBus, planned: Sequence[Planned], tell: Callable[[str], None]
    ) -> None:
        self._system, self._bus, self._planned, self._tell = system, bus, planned, tell
        self.made: list[Fault] = []
        self.late = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._broker_lock = asyncio.Lock()

    async def rage(self) -> None:
        """Until the last fault is over."""
        self.began = time.monotonic()
        for planned in self._planned:
            wait = self.began + planned.at - time.monotonic()
            self.late += wait < -LATE_S
            await asyncio.sleep(max(0.0, wait))
            task = asyncio.create_task(self._carry_out(planned))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.gather(*self._under_way)

    async def _carry_out(self, planned: Planned) -> None:
        began = time.monotonic()
        await getattr(self, f"_{planned.kind}")(planned)
        fault = Fault(planned, began, time.monotonic())
        self.made.append(fault)
        self._tell(str(fault))

    async def _kill(self, planned: Planned) -> None:
        if self._system.processes[planned.victim].running:
            await self._system.kill(planned.victim)

    async def _stop(self, planned: Planned) -> None:
        self._system.pause(planned.victim, signal.SIGSTOP)
        await asyncio.sleep(planned.lasts)
        self._system.pause(planned.victim, signal.SIGCONT)

    async def _reset(self, planned: Planned) -> None:
        self._system.proxies[planned.victim].reset()

    async def _silent(self, planned: Planned) -> None:
        proxy, (ways, _, then) = self._system.proxies[planned.victim], planned.how.partition(", then ")
        proxy.silence(up=ways != "down", down=ways != "up")
        await asyncio.sleep(planned.lasts)
        if then == "cut":
            proxy.reset()
        proxy.heal()

    async def _clock(self, planned: Planned) -> None:
        self._system.step_clock(planned.victim, float(planned.how.removesuffix(" s")))
        await asyncio.sleep(planned.lasts)
        self._system.step_clock(planned.victim, 0.0)

    async def _broker(self, planned: Planned) -> None:
        """One kill at a time: the next waits until the server is there again."""
        async with self._broker_lock:
            await self._system.kill_nats()
            await asyncio.sleep(planned.lasts)
            await self._system.broker_up()

    async def _freeze(self, planned: Planned) -> None:
        """The server is stopped, and continues: nobody is told, and every lease is older by so much."""
        async with self._broker_lock:
            os.kill(self._system.nats.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(planned.lasts)
            finally:
                os.kill(self._system.nats.pid, signal.SIGCONT)

    async def _leader(self, planned: Planned) -> None:
        """One node at a time: two of three must be there, and have everything, for anything to go on."""
        async with self._broker_lock:
            await self._system.kill_leader(self._bus, int(planned.how.rpartition(" ")[2]), planned.lasts)
            await self._system.settled(self._bus)

    async def _node(self, planned: Planned) -> None:
        async with self._broker_lock:
            await self._system.stop_node(int(planned.how), planned.lasts)
            await self._system.settled(self._bus)
