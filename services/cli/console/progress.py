"""Bars and spinners on stderr while something takes long; on a terminal alone."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from services.cli.console import screen
from shared.visible import line

WORTH = 2  # fewer things need no bar
PATIENCE_S = 0.5  # what is over sooner needs no spinner
T = TypeVar("T")


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Call what it gives once for each thing that is done."""
    if total < WORTH or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=screen.under(sys.stderr)), transient=True) as shown:
        task = shown.add_task(line(label), total=total)
        yield lambda: shown.advance(task)


async def patiently(work: Awaitable[T], label: str) -> T:
    """A spinner if the work is not done soon. Cancelled, it cancels the work."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_S if sys.stderr.isatty() else None)
        if done:
            return task.result()
        from rich.console import Console

        with Console(file=screen.under(sys.stderr)).status(line(label)):
            return await task
    finally:
        if not task.done():
            task.cancel()
