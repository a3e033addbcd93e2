"""The command queue as the scheduler sees it: what waits for its turn is not lost."""

from collections.abc import Iterable

from msgspec.structs import replace

from services.scheduler import queue_loss
from services.scheduler.limits import Limits
from services.scheduler.pool_capacity import UNKNOWN_SLOTS
from services.scheduler.queue import COMPARE_S, CommandQueue
from services.scheduler.takeover import Known
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.engine.scheduling.state import Schedule
from shared.events.command import Command, key_of
from tests.support.clock import VirtualClock

COMMAND = Command("x", "r1", "s", "d", "default", 1)
COUNT = 5 * UNKNOWN_SLOTS
COMMANDS = [replace(COMMAND, index=index) for index in range(COUNT)]


class Log:
    def __init__(self) -> None:
        self.commands, self.part = COMMANDS, 1.0

    def due(self) -> Iterable[Command]:
        return self.commands

    def live(self) -> Iterable[Schedule]:
        return ()

    def known(self, execution_id: str) -> Known:
        return self.commands

    def share(self) -> float:
        return self.part


async def remake() -> None: ...


def made(clock: VirtualClock) -> tuple[CommandQueue, Log]:
    bus, log = MemoryBus(MemoryBroker(clock, topology.wanted())), Log()
    limits = Limits(bus, clock, "s1", 4, lambda _: True, lambda: frozenset({"s1"}), lambda *_: True)
    return CommandQueue(bus, clock, remake, log, limits), log


def waiting(queue: CommandQueue) -> list[Command]:
    """What is on its way to the broker."""
    return [entry.item for entry in queue._publishing._waiting if isinstance(entry.item, Command)]


async def test_a_sweep_leaves_alone_what_waits_for_its_turn() -> None:
    clock = VirtualClock()
    queue, _ = made(clock)
    queue.send(COMMANDS, lambda: None)
    for _ in range(3):
        await clock.advance(queue_loss.SWEEP_S + 1)
        await queue._loss._look()
        assert {key_of(item)[2] for item in waiting(queue)} == set(range(UNKNOWN_SLOTS + 1))


async def test_an_end_that_was_not_heard_of_does_not_hold_others_back_while_others_end() -> None:
    clock = VirtualClock()
    queue, log = made(clock)
    queue.send(COMMANDS, lambda: None)
    log.commands = COMMANDS[UNKNOWN_SLOTS + 1 :]  # all that went out have ended, and nobody said so
    for _ in range(3):
        await clock.advance(COMPARE_S / 2 + 1)
        queue._pools["default"].ended += 1  # others end all the time
        queue._look(1.0)
    assert {key_of(item)[2] for item in waiting(queue)} >= set(range(2 * UNKNOWN_SLOTS))


async def test_what_is_held_is_counted_by_pool_and_no_more_when_another_scheduler_has_it() -> None:
    clock = VirtualClock()
    queue, log = made(clock)
    other = [replace(item, pool="gpu") for item in COMMANDS[:UNKNOWN_SLOTS]]
    queue.send([*COMMANDS, *other], lambda: None)
    queue._look(1.0)
    assert queue.held() == {"default": COUNT - UNKNOWN_SLOTS - 1}
    log.commands, log.part = [], 0.5  # its partition went elsewhere
    queue._pools["default"].ended += 1  # of other executions
    queue._look(1.0)
    assert queue.held() == {}
