"""A fresh command is a claim about the whole system: a scheduler held up just before it publishes cannot make it."""

import asyncio

import pytest

from shared.bus import topology
from shared.bus.subject import matches
from shared.events import model as ev
from shared.events import subjects
from tests.sim import checks
from tests.sim.run import ask_for, live_through
from tests.sim.test_stories import calls, client, finish, reached
from tests.sim.world import Asked, World

FROZEN_S = 45.0  # by then the broker has forgotten the ids of messages


@pytest.mark.parametrize("lost", [False, True], ids=["ids forgotten", "queue lost"])
def test_scheduler_frozen_between_its_last_look_and_its_publish_makes_no_finished_run_run_again(lost: bool) -> None:
    async def story(world: World) -> None:
        await world.open(1, 2, 1)
        await asyncio.sleep(1.0)
        frozen = freeze_at_command(world)
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


def test_scheduler_frozen_before_its_publish_makes_no_iteration_that_waits_begin_again() -> None:
    """Another scheduler sends the iteration, while others of its loop wait; it comes to its own wait, and nothing of it
    is in the queue when the first scheduler continues."""

    async def story(world: World) -> None:
        await world.open(1, 2, 2)
        await asyncio.sleep(1.0)
        frozen = freeze_at_command(world, f"{subjects.COMMANDS}.*.e0.*.3")
        family = ask_for("sim/family", "e0")
        world.asked = [Asked(family.book, {"items": [1, 2, 7, 4]}, "", "e0")]
        await world.publish(world.asked[0])
        await reached(lambda: frozen, "a scheduler is frozen")
        await reached(lambda: is_parked(world, "e0", 3), "the iteration waits, and no command of it is left")
        client(world, frozen[0]).thaw()  # its next operation is the publish
        await finish(world)

    world = live_through(story)
    assert checks.check(world) == []
    assert len(calls(world)) == len(set(calls(world)))


def is_parked(world: World, execution_id: str, index: int) -> bool:
    stream = world.broker.streams[topology.COMMANDS]
    if stream.read((f"{subjects.COMMANDS}.*.{execution_id}.*.{index}",), 0):
        return False
    leased = [record for _, record in checks.read_histories(world)[execution_id] if record.lease is not None]
    return any(record.lease.index == index and isinstance(record.events[-1], ev.TaskWaiting) for record in leased)


def freeze_at_command(world: World, pattern: str = f"{subjects.COMMANDS}.>") -> list[str]:
    """The scheduler that is about to send the first such command freezes before the broker gets it."""
    frozen: list[str] = []
    before = world.network.before

    async def freezing(operation: str, name: str, subject: str) -> None:
        if not frozen and operation == "send" and matches(pattern, subject):
            frozen.append(name.partition("#")[0])
            client(world, frozen[0]).freeze()
        await before(operation, name, subject)

    world.network.before = freezing  # type: ignore[method-assign]
    return frozen
