"""What was read may be read again; what was done with it is in the log first."""

import asyncio

import pytest

from tests.sim import checks
from tests.sim.mutants.promises import effects_like_reads
from tests.sim.run import live_through
from tests.sim.test_stories import begin, calls, finish, reached
from tests.sim.world import World


async def silenced(world: World) -> None:
    """Nothing that the worker says arrives from within the first effect on, and its connection breaks in the end."""
    await begin(world, "sim/slow", workers=2)
    await reached(lambda: world.ledger, "the first effect has begun")
    await asyncio.sleep(2.0)
    world.network.clients[world.ledger[-1].worker].silence(12.0, cut=True)
    await finish(world)


def test_a_worker_that_cannot_store_what_it_has_read_does_nothing_with_it() -> None:
    world = live_through(silenced)
    assert checks.check(world) == []
    made = calls(world)
    assert [made.count(f"e0/start:1/{task}") for task in ("one/1", "look/2", "again/3", "two/4")] == [2, 2, 2, 1]


def test_the_checks_notice_an_effect_that_follows_from_what_nobody_has_stored() -> None:
    with effects_like_reads():
        world = live_through(silenced)
    (found,) = checks.check(world)
    assert found.startswith("call: e0/start:1/two/4")


@pytest.mark.parametrize("die_in", ["look", "two"])
def test_reads_are_made_again_and_effects_before_them_are_not(die_in: str) -> None:
    """A worker dies in a read or in the effect after it: what is in the log by then stays."""

    async def story(world: World) -> None:
        await begin(world, "sim/slow", workers=2)
        await reached(lambda: any(f"/{die_in}/" in key for key in calls(world)), f"{die_in} has begun")
        await asyncio.sleep(0.5 if die_in == "two" else 0.0)
        world.crash(world.ledger[-1].worker)
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    made = calls(world)
    if die_in == "two":
        assert [made.count(f"e0/start:1/{task}") for task in ("one/1", "look/2", "again/3", "two/4")] == [1, 1, 1, 2]
    else:
        assert made.count("e0/start:1/look/2") == 2
