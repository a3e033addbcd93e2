"""The last to keep what tasks start: a process that lost its wardens becomes a child of the worker, and that of a
killed worker one of the pools service. Each ends whatever it has not started itself. Linux alone knows adoption."""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path

import structlog

from shared.bus.ports import Bus, Clock
from shared.runtime.service.main import Serve
from shared.runtime.service.settings import Settings
from shared.tools.base.warden import adopt_orphans

LOOK_S = 0.5
TASKS = Path("/proc/self/task")
Own = Callable[[], Collection[int] | None]

log = structlog.get_logger()


def ended(serve: Serve, own: Own) -> Serve:
    """The service, which from now on ends strays. `own` are the processes it started, if that can be said now."""

    @functools.wraps(serve)
    async def keeping(
        bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]
    ) -> None:
        adopt_orphans()
        looking = asyncio.create_task(keep_ending(own))
        try:
            await serve(bus, settings, clock=clock, stop=stop, ready=ready)
        finally:
            looking.cancel()
            end(own)

    return keeping


async def keep_ending(own: Own) -> None:
    while True:
        end(own)
        await asyncio.sleep(LOOK_S)


def end(own: Own) -> None:
    """Ends those that are here now; what is below them comes next."""
    known, session = own(), os.getsid(0)
    if known is None:
        return
    for pid in children():
        with contextlib.suppress(ProcessLookupError, ChildProcessError, PermissionError):
            if pid not in known and os.getsid(pid) != session:
                os.kill(pid, signal.SIGKILL)
                if os.waitpid(pid, os.WNOHANG)[0]:
                    log.warning("stray.ended", pid=pid)


def children() -> list[int]:
    """Cheap to ask, but one may be left out while others end."""
    found = list[int]()
    with contextlib.suppress(OSError):
        for task in TASKS.iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found
