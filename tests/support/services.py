"""Services that do nothing but live."""

import asyncio
from collections.abc import Callable

from shared.bus.ports import Bus, Clock
from shared.runtime.service.settings import Settings

Ready = Callable[[], None]


async def obedient(
    bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready  # noqa: ARG001
) -> None:
    """Ready at once; ends when it is asked to."""
    ready()
    await stop.wait()
