"""The executions that an execution started, each followed into a summary of its own while the first is watched."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from services.cli.executions.records import follow
from shared.answers.history.summary import Summary
from shared.bus.ports import Bus
from shared.errors import NoetlError

MAX_FOLLOWED = 20  # children, and children of theirs; more are counted at their step alone
MAX_DEPTH = 3


class Family:
    def __init__(self, bus: Bus, partitions: int, changed: Callable[[], None]) -> None:
        self._bus, self._partitions, self._changed = bus, partitions, changed
        self.summaries: dict[str, Summary] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def meet(self, summary: Summary, depth: int = 1) -> None:
        """Follows the children that are new."""
        for each in summary.children:
            if each not in self.summaries and depth <= MAX_DEPTH and len(self.summaries) < MAX_FOLLOWED:
                self.summaries[each] = Summary(each)
                self._tasks.append(asyncio.ensure_future(self._follow(self.summaries[each], depth)))

    async def _follow(self, summary: Summary, depth: int) -> None:
        try:
            async with aclosing(follow(self._bus, summary.execution_id, self._partitions)) as batches:
                async for batch in batches:
                    for record in batch:
                        summary.apply(record)
                    self.meet(summary, depth + 1)
                    self._changed()
                    if summary.over:
                        return
        except NoetlError:
            return  # what is shown of it stays as it was; the watched one says what is wrong

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
