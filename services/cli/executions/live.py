"""The executions that are not over: from the read model, or from the end of the log when PostgreSQL is away."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from services.cli.executions import readmodel
from services.cli.executions.recent import MAX_WALKED
from services.cli.executions.selection import LIVE, Selection
from shared.bus import topology
from shared.bus.ports import Bus
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import readable

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings


class Found(NamedTuple):
    """`more`: there are others beyond the limit. `note`: where they come from, if not from the read model."""

    executions: list[str]
    more: bool = False
    note: str = ""


async def find(bus: Bus, settings: "Settings", chosen: Selection, limit: int) -> Found:
    """The oldest first: what has stood for longest is of the most interest."""
    wanted = chosen._replace(statuses=chosen.statuses or LIVE)
    try:
        rows = await readmodel.executions(settings.postgres_dsn, wanted, readmodel.Part(limit + 1, reverse=True))
        found, note = [str(row["execution_id"]) for row in rows], ""
    except readmodel.Away:
        if chosen._replace(path="") != Selection():  # the log is not sorted by anything else
            raise
        found = await _walked(bus, settings.partitions, chosen.path)
        note = f"PostgreSQL does not answer: these are from the last {MAX_WALKED:,} records of each partition"
    return Found(found[:limit], len(found) > limit, note)


async def _walked(bus: Bus, partitions: int, path: str) -> list[str]:
    begun: dict[str, str] = {}
    for partition in range(partitions):
        stream = topology.events_stream(partition)
        after = max(0, await bus.last_seq(stream) - MAX_WALKED)
        over: set[str] = set()
        for _, record in readable(await bus.read(stream, subjects.events_by(partition, "router"), after), partitions):
            first, *_ = record.events
            if isinstance(first, ev.ExecutionRequested) and fnmatchcase(first.path, path or "*"):
                begun[record.execution_id] = record.ts
            if any(isinstance(event, ev.PlaybookProcessed) for event in record.events):
                over.add(record.execution_id)
        for each in over:
            begun.pop(each, None)
    return sorted(begun, key=begun.__getitem__)
