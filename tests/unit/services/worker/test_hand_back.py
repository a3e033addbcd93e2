"""A hold that is handed back keeps no lease: whatever came of the run meanwhile goes back as well."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from services.worker.hold import Around, Hold
from services.worker.presence import Presence
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
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


@pytest.mark.parametrize("since", [0, 7])  # the same command again, or the one after a wait
async def test_what_is_given_while_a_run_is_handed_back_is_handed_back_too(since: int) -> None:
    second = Given(2)

    async def again() -> None:
        await hold.take(replace(COMMAND, since=since), second, 0)

    bus = MemoryBus(MemoryBroker(SystemClock()))
    around = Around(bus, SystemClock(), Presence(lambda: 0.0), "default", "w1", 1)
    hold = Hold(around, COMMAND, Given(1, again), 0, 0.0)
    await hold.hand_back("no turn", 0.5)
    assert second.said == ["progress", "nak 0.5"]
    assert not hold.renew()
