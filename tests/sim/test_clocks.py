"""Stories of clocks: those of machines, which decide nothing, and the broker's, which may be set."""

import asyncio

import pytest

from shared.bus import topology
from tests.sim import checks
from tests.sim.mutants.promises import wall_time
from tests.sim.run import ask_for, live_through
from tests.sim.test_stories import begin, finish
from tests.sim.world import World

HOUR_S = 3600.0


def length(step_s: float, kinds: tuple[str, ...], after_s: float) -> float:
    """How long it takes until all waits are over, if the clocks of these services' machines are set meanwhile."""
    took = []

    async def story(world: World) -> None:
        await world.open(1, 1, 1)
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().call_later(after_s, _set, world, kinds, step_s)
        await asyncio.sleep(0.1)
        world.asked = [ask_for("sim/waits", "e0")]
        await world.publish(world.asked[0])
        began = asyncio.get_running_loop().time()
        await world.drain("with clocks that were set")
        took.append(asyncio.get_running_loop().time() - began)
        await world.stop_all()

    assert checks.check(live_through(story)) == []
    return took[0]


def _set(world: World, kinds: tuple[str, ...], step_s: float) -> None:
    for process in world.processes:
        if process.kind in kinds:
            process.machine.ahead_s += step_s


@pytest.mark.parametrize("kind", ["router", "scheduler", "worker"])
@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
@pytest.mark.parametrize("after_s", [0.0, 0.6])
def test_a_machines_clock_that_is_set_changes_nothing(kind: str, step_s: float, after_s: float) -> None:
    assert abs(length(step_s, (kind,), after_s) - length(0.0, (), 0.0)) < 2.0


@pytest.mark.parametrize(("kind", "step_s"), [("worker", HOUR_S), ("worker", -HOUR_S), ("scheduler", HOUR_S)])
def test_by_the_clocks_of_machines_waits_would_be_cut_short_or_never_end(kind: str, step_s: float) -> None:
    """What the stories above are worth."""
    with wall_time(), pytest.raises(AssertionError):
        assert abs(length(step_s, (kind,), 0.0) - length(0.0, (), 0.0)) < 2.0


@pytest.mark.parametrize("back_s", [3.0, 120.0])
def test_a_broker_whose_clock_is_set_back_delays_a_lost_run_by_no_more_than_that(back_s: float) -> None:
    """A command that is issued again has an earlier time than the lease of the worker that died with the queue: it is
    fenced, and issued again, until the broker's time has come back."""
    took = []

    async def story(world: World) -> None:
        await begin(world, "sim/long")
        await asyncio.sleep(3.0)
        assert world.ledger, "a worker has the run"
        world.broker.stepped_s -= back_s
        world.broker.wipe(topology.COMMANDS)
        world.crash("worker0#1")
        began = asyncio.get_running_loop().time()
        await world.drain("after the clock was set back")
        took.append(asyncio.get_running_loop().time() - began)
        await finish(world)

    assert checks.check(live_through(story)) == []
    assert took[0] < back_s + 90.0
