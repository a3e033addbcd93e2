"""What a shell does in the background, until it stops. What fails there is a bug: it breaks the service, visibly."""

import asyncio
from collections.abc import Coroutine


class Background:
    """`broken` is what failed."""

    def __init__(self) -> None:
        self.broken: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[None, None, None]) -> None:
        if self._stopping:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error

    def stop(self) -> list["asyncio.Task[None]"]:
        """Begins nothing from now on; returns those to wait for."""
        self._stopping = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks
