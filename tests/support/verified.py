"""What `verify` finds in a history read from a real broker, and whether it replays as it was, with the plans and stored
values that both ask for."""

from typing import Any

from shared.bus.ports import Bus
from shared.engine.large import Missing
from shared.engine.replay import replay
from shared.engine.replay_recording import Recording, digest_of
from shared.engine.replay_words import shape
from shared.engine.verify import verify
from shared.events.record import Record
from shared.runtime import results
from shared.runtime.plans import PlanMissing, Plans
from shared.tools import registry
from shared.tools.natural import natural


async def violations(
    bus: Bus, plans: Plans, execution_id: str, records: list[tuple[int, Record]], values: dict[str, Any]
) -> list[str]:
    while True:
        try:
            found = [str(found) for found in verify(execution_id, records, plans, values)]
            return found or _replayed(plans, execution_id, records, values)
        except Missing as missing:
            values[missing.ref.checksum] = await results.load(bus, missing.ref)
        except PlanMissing as missing:
            await plans.load(missing.digest)


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
