"""Schedules under faults: lost calls, lost answers, killed schedulers, two at once. Each time is asked for
under one id, and none is lost."""

import asyncio
import random

import pytest

from shared.bus.memory.broker import Faults
from shared.errors import Unavailable, Unknown
from shared.runtime.stores import schedules as store_schedules
from tests.unit.services.scheduler.world import World, live, schedule

SEEDS = range(25)
MINUTES = 12


class Rough(Faults):
    """Of what a scheduler asks, some is lost on its way in, and some on its way out."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.calm = False

    async def before(self, operation: str, client: str, subject: str) -> None:
        await asyncio.sleep(self.rng.uniform(0, 0.3))
        if client != "admin" and not self.calm and self.rng.random() < 0.2:
            raise Unavailable("lost on its way")

    async def after(self, operation: str, client: str, subject: str) -> None:
        if client != "admin" and not self.calm and self.rng.random() < 0.2:
            raise Unknown("the answer is lost") if operation in ("send", "kv_put") else Unavailable("lost")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_time_is_asked_for_under_one_id(seed: int) -> None:
    async def story(world: World) -> None:
        faults = Rough(seed)
        world.broker.faults, world.broker.is_faultless = faults, False
        overlap = faults.rng.choice(("allow", "skip"))
        await world.apply(schedule("every: 1m", more=f"  catch_up: all\n  overlap: {overlap}\n"))
        together: list[int] = []
        ender = asyncio.create_task(end_soon(world, together))
        await rough_life(world, faults.rng)
        faults.calm = True
        world.start("last")
        await asyncio.sleep(60)
        ender.cancel()
        asked = {request["payload"]["at"]: request["execution_id"] for request in await world.requests()}
        assert len(asked) == len(set(await world.ids()))
        if overlap == "skip":
            assert max(together) == 1
        else:
            assert [at - world.clock.start for at in sorted(asked)][:MINUTES] == [60 * k for k in range(1, MINUTES + 1)]
        assert await store_schedules.everything(world.bus, "Schedule")

    live("2026-01-01T00:00Z", story)


async def rough_life(world: World, rng: random.Random) -> None:
    """One or two schedulers at a time, killed or stopped at odd moments."""
    end, number = world.clock.now() + MINUTES * 60, 0
    while world.clock.now() < end:
        names = [f"life{number}-{k}" for k in range(rng.randint(1, 2))]
        number += 1
        for name in names:
            world.start(name)
        await asyncio.sleep(rng.uniform(5, 150))
        for name in names:
            await (world.kill(name) if rng.random() < 0.5 else world.stop(name))


async def end_soon(world: World, together: list[int]) -> None:
    """Executions take up to 90 s; how many run is noted."""
    seen: set[str] = set()
    while True:
        await asyncio.sleep(90)
        running = set(await world.ids()) - seen
        together.append(len(running))
        for execution_id in running:
            seen.add(execution_id)
            await world.ended(execution_id)
