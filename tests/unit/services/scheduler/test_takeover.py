"""What a dead worker held goes to whoever is next, when the log says that it is due."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from services.scheduler.liveness import CLOSED_S, SILENT_S
from services.scheduler.reissue import Again, Lost
from services.scheduler.takeover import GIVE_UP_S, RETRY_S, Known, Takeover
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.errors import Unavailable
from shared.events.beat import Beat
from shared.events.command import Command, key_of
from tests.support.clock import VirtualClock

ONE = Command("x", "r1", "s", "d", "default", 1)
TWO = replace(ONE, execution_id="y")
BEAT = Beat("w1", "default", 8, [key_of(ONE), key_of(TWO)], started=1.0, seqs=[7, 9])


class Issued(Again):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__(MemoryBus(MemoryBroker(VirtualClock(), topology.wanted())), lambda *_: None)
        self.seen: list[Lost] = []
        self.fails = 0

    async def issue(self, lost: Sequence[Lost]) -> int:
        if self.fails and lost:
            self.fails -= 1
            raise Unavailable("not now")
        self.seen += lost
        return len(lost)


class Setting:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.issued = clock, Issued()
        self.known: dict[str, Known] = {"x": [ONE], "y": [TWO]}
        self.takeover = Takeover(clock, lambda execution_id: self.known[execution_id], self.issued)
        self.task = asyncio.create_task(self.takeover.run())
        self.takeover.heard("default.w1", BEAT)

    async def pass_by(self, seconds: float) -> list[Lost]:
        await self.clock.advance(seconds)
        return sorted(self.issued.seen, key=lambda lost: lost[1])


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    made = Setting(VirtualClock())
    yield made
    made.task.cancel()


async def test_what_a_worker_held_that_ended_is_issued_at_once(setting: Setting) -> None:
    setting.takeover.ended("default.w1")
    assert await setting.pass_by(0.01) == [(ONE, 7), (TWO, 9)]


async def test_a_worker_says_nothing_of_another_pools_runs(setting: Setting) -> None:
    """Neither that they are lost with it, nor that it has them."""
    liar = replace(BEAT, worker="liar", pool="other")
    setting.takeover.heard("other.liar", liar)
    setting.takeover.ended("other.liar")
    assert await setting.pass_by(0.01) == []
    setting.takeover.heard("other.liar", liar)
    setting.takeover.ended("default.w1")
    assert await setting.pass_by(0.01) == [(ONE, 7), (TWO, 9)]


async def test_a_connection_that_closed_is_a_death_if_no_beat_follows(setting: Setting) -> None:
    setting.takeover.closed("default.w1")
    assert await setting.pass_by(CLOSED_S - 0.1) == []
    assert await setting.pass_by(0.2) == [(ONE, 7), (TWO, 9)]


async def test_a_worker_that_connects_again_is_not_dead(setting: Setting) -> None:
    setting.takeover.closed("default.w1")
    setting.takeover.closed("default.nobody")
    await setting.pass_by(CLOSED_S / 2)
    setting.takeover.heard("default.w1", BEAT)
    assert await setting.pass_by(2 * CLOSED_S) == []


async def test_what_is_not_due_or_held_by_another_is_left_alone(setting: Setting) -> None:
    setting.known["x"] = []
    setting.takeover.heard("default.w2", replace(BEAT, worker="w2", held=[key_of(TWO)], seqs=[9]))
    setting.takeover.ended("default.w1")
    assert await setting.pass_by(1.0) == []


async def test_an_execution_that_is_being_loaded_is_waited_for_but_not_for_ever(setting: Setting) -> None:
    setting.known |= {"x": None, "y": None}
    setting.takeover.listened(SILENT_S + 0.1)
    assert await setting.pass_by(2.0) == []
    setting.known["x"] = [ONE]
    assert await setting.pass_by(2 * RETRY_S) == [(ONE, 7)]
    await setting.pass_by(GIVE_UP_S)
    setting.known["y"] = [TWO]
    assert await setting.pass_by(2 * RETRY_S) == [(ONE, 7)]


async def test_a_broker_that_does_not_answer_is_asked_again(setting: Setting) -> None:
    setting.issued.fails = 2
    setting.takeover.ended("default.w1")
    assert await setting.pass_by(3 * RETRY_S) == [(ONE, 7), (TWO, 9)]
