"""A fresh command is a claim about the whole system: a scheduler held up just before it publishes cannot make it."""

import asyncio

import pytest

from shared.bus import topology
from shared.events import subjects
from tests.sim import checks
from tests.sim.run import ask_for, live_through
from tests.sim.test_stories import calls, client, finish, reached
from tests.sim.world import World

FROZEN_S = 45.0  # by then the broker has forgotten the ids of messages


@pytest.mark.parametrize("lost", [False, True], ids=["ids forgotten", "queue lost"])
def test_scheduler_frozen_between_its_last_look_and_its_publish_makes_no_finished_run_run_again(lost: bool) -> None:
    async def story(world: World) -> None:
        await world.open(1, 2, 1)
        await asyncio.sleep(1.0)
        frozen = freeze_at_first_command(world)
        world.asked = [ask_for("sim/choice", f"e{k}") for k in range(4)]
        for asked in world.asked:
            await world.publish(asked)
        await reached(lambda: frozen, "a scheduler is frozen")
        await world.drain("by the other scheduler")
        made = len(world.ledger)
        if lost:
            world.broker.wipe(topology.COMMANDS)
            await asyncio.sleep(5.0)
        else:
            await asyncio.sleep(FROZEN_S)
        client(world, frozen[0]).thaw()  # its next operation is the publish
        await asyncio.sleep(5.0)
        assert len(world.ledger) == made
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


def freeze_at_first_command(world: World) -> list[str]:
    """The scheduler that is about to send the first command freezes before the broker gets it."""
    frozen: list[str] = []
    before = world.network.before

    async def freezing(operation: str, name: str, subject: str) -> None:
        if not frozen and operation == "send" and subject.startswith(subjects.COMMANDS):
            frozen.append(name.partition("#")[0])
            client(world, frozen[0]).freeze()
        await before(operation, name, subject)

    world.network.before = freezing  # type: ignore[method-assign]
    return frozen
