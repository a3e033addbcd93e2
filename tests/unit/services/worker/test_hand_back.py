"""A hold that is handed back keeps no lease: whatever came of the run meanwhile goes back as well."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from services.worker.hold import LET_GO_S, Around, Hold
from services.worker.lease_keeper import EXTEND_S, TICK_S
from services.worker.presence import Presence
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.engine.pipeline.ownership import Fenced
from shared.events.command import Command
from shared.runtime.service.clock import SystemClock

COMMAND = Command("x1", "start:1", "start", "digest", "default", 0)


class Given:
    """A delivery that says what became of it; something may happen while it is handed back."""

    subject, data, seq, headers = "", b"", 1, None

    def __init__(self, number: int, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        self.epoch, self._meanwhile = (1, number), meanwhile
        self.said: list[str] = []

    async def ack(self) -> None:
        self.said.append("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self.said.append(f"nak {delay:g}")
        if self._meanwhile is not None:
            await self._meanwhile()

    async def progress(self) -> None:
        self.said.append("progress")

    async def extend(self) -> None:
        self.said.append("extend")


def held_by(delivery: Given) -> Hold:
    bus = MemoryBus(MemoryBroker(SystemClock()))
    around = Around(bus, SystemClock(), Presence(lambda: 0.0), "default", "w1", 1)
    return Hold(around, COMMAND, delivery, 0, 0.0)


@pytest.mark.parametrize(("fenced", "said"), [
    (Fenced(needless=True), ["ack"]), (Fenced(needless=False), []), (Fenced(needless=False, idle=True), ["nak 6"]),
])
async def test_a_command_that_nobody_holds_is_given_back_by_who_extended_it(fenced: Fenced, said: list[str]) -> None:
    given = Given(1)
    await held_by(given).lose(fenced)
    assert given.said == said


async def test_a_command_that_came_again_is_begun_and_not_given_back() -> None:
    first, second = Given(1), Given(3)
    hold = held_by(first)
    await hold.take(COMMAND, second, 0)
    await hold.lose(Fenced(needless=False, idle=True))
    assert (first.said, second.said) == ([], ["progress"])
    assert hold.renew()


def test_a_worker_that_is_well_extends_a_lease_before_a_former_holder_ends_it() -> None:
    assert EXTEND_S + TICK_S < LET_GO_S < topology.COMMAND_LEASE_S


@pytest.mark.parametrize("since", [0, 7])  # the same command again, or the one after a wait
async def test_what_is_given_while_a_run_is_handed_back_is_handed_back_too(since: int) -> None:
    second = Given(2)

    async def again() -> None:
        await hold.take(replace(COMMAND, since=since), second, 0)

    hold = held_by(Given(1, again))
    await hold.hand_back("no turn", 0.5)
    assert second.said == ["progress", "nak 0.5"]
    assert not hold.renew()
