"""Templates of triggers and schedules: evaluated one at a time, with the service's other work in between.

Messages come together, and many schedules have the same time. Tasks that are ready together run one after the other
before the loop looks at anything else, so each of them alone would be quick, and all of them a freeze.
"""

import asyncio
from types import TracebackType


class Turns:
    """Held around one evaluation."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._one_at_a_time.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            self._one_at_a_time.release()
