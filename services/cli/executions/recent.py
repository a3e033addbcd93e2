"""The latest executions of a playbook: from the read model, or, where there is none, by walking the end of the log."""

from shared.bus import topology
from shared.bus.ports import Bus
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import readable
from shared.runtime.service.settings import Settings

MAX_WALKED = 200_000  # messages at the end of each partition


async def latest(bus: Bus, settings: Settings, path: str, last: int) -> list[str]:
    """The newest first."""
    if settings.postgres_dsn:
        from services.cli.executions.readmodel import executions
        from services.cli.executions.selection import Selection

        rows = await executions(settings.postgres_dsn, Selection(path=path), last)
        return [str(row["execution_id"]) for row in rows]
    found: list[tuple[str, str]] = []
    for partition in range(settings.partitions):
        found += await _begun(bus, partition, settings.partitions, path)
    return [execution_id for _, execution_id in sorted(found, reverse=True)[:last]]


async def _begun(bus: Bus, partition: int, partitions: int, path: str) -> list[tuple[str, str]]:
    """When and which, of one partition."""
    stream = topology.events_stream(partition)
    after = max(0, await bus.last_seq(stream) - MAX_WALKED)
    found = []
    messages = await bus.read(stream, subjects.events_by(partition, "router"), after=after)
    for _, record in readable(messages, partitions):
        first = record.events[0]
        if record.n == 1 and isinstance(first, ev.ExecutionRequested) and first.path == path:
            found.append((record.ts, record.execution_id))
    return found
