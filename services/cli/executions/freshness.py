"""Whether the read model shows what the log says now; one line for people when it does not."""

from contextlib import suppress
from typing import TYPE_CHECKING

from services.cli.console import times
from services.cli.console.exits import CliError
from services.cli.stack import context
from shared.bus import stored_messages, topology
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.events import subjects

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings

LATE_S = 10.0  # a projector rests a second between its batches


async def note(settings: "Settings") -> str:
    """Empty: the list is of this moment, or nobody can say."""
    with suppress(CliError):  # without a broker there is no log to compare with, and no execution that moves
        async with context.connected(settings) as bus:
            if isinstance(bus, JetStreamBus):
                with suppress(NoetlError):
                    return told(*await behind(bus, settings))
    return ""


async def behind(bus: JetStreamBus, settings: "Settings") -> tuple[int, float]:
    """How many records are not in the read model, and for how long the first of them."""
    from services.cli.executions import readmodel

    known, now = await readmodel.cursors(settings.postgres_dsn), await bus.time()
    waiting, oldest = 0, 0.0
    for partition in range(settings.partitions):
        stream, cursor = topology.events_stream(partition), known.get(partition, 0)
        first = await stored_messages.first(bus, stream, f"{subjects.EVENTS}.>", cursor)
        if first is not None:
            waiting, oldest = waiting + 1 + first.more, max(oldest, now - first.at)
    return waiting, oldest


def told(waiting: int, oldest_s: float) -> str:
    if not waiting or oldest_s < LATE_S:
        return ""
    return (f"the read model is {times.length(oldest_s)} behind the log ({waiting} records): the list shows what was "
            "then; `noetlctl doctor` says why, `noetlctl get ID` reads the log")
