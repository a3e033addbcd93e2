"""The broker says what time it is."""

import time

from shared.bus.ports import Bus
from tests.contract.bus.conftest import Connect


async def test_it_says_its_time_to_everybody(connect_as: Connect) -> None:
    for user in ("admin", "router", "worker_default"):
        before = time.time()
        told = await (await connect_as(user)).time()
        assert before - 0.5 < told < time.time() + 0.5


async def test_it_goes_on(bus: Bus) -> None:
    told = [await bus.time() for _ in range(20)]
    assert told == sorted(told)
    assert told[0] < told[-1]
