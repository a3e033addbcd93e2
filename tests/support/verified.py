"""What `verify` finds in a history read from a real broker, and whether it replays as it was, with the plans and stored
values that both ask for."""

from typing import Any

from shared.answers.replay.recording import Recording, digest_of
from shared.answers.replay.replay import replay
from shared.answers.replay.shape import shape
from shared.answers.verify.verify import verify
from shared.bus.ports import Bus
from shared.events.record import Record
from shared.runtime.stores import results
from shared.runtime.stores.plans import Plans
from shared.tools import registry
from shared.tools.testing.effectless import natural


async def violations(
    bus: Bus, plans: Plans, execution_id: str, records: list[tuple[int, Record]], values: dict[str, Any]
) -> list[str]:
    def work() -> list[str]:
        found = [str(found) for found in verify(execution_id, records, plans, values)]
        return found or _replayed(plans, execution_id, records, values)

    return await results.brought(bus, values, work, plans)


def _replayed(
    plans: Plans, execution_id: str, records: list[tuple[int, Record]], values: dict[str, Any]
) -> list[str]:
    """A history against its own source: without a difference, a missing call, or a call to a tool."""
    digest = digest_of(records)
    if not digest:
        return []
    plan = plans(digest)
    found = replay(Recording(execution_id, records, plan), plan, registry.specs(), natural, values)
    return [] if found.verdict == "identical" else [f"replay: {shape(found)}"]
