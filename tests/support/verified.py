"""What `verify` finds in a history read from a real broker, with the plans and stored values it asks for."""

from typing import Any

from shared.bus.ports import Bus
from shared.engine.large import Missing
from shared.engine.verify import verify
from shared.events.record import Record
from shared.runtime import results
from shared.runtime.plans import PlanMissing, Plans


async def violations(
    bus: Bus, plans: Plans, execution_id: str, records: list[tuple[int, Record]], values: dict[str, Any]
) -> list[str]:
    while True:
        try:
            return [str(found) for found in verify(execution_id, records, plans, values)]
        except Missing as missing:
            values[missing.ref.checksum] = await results.load(bus, missing.ref)
        except PlanMissing as missing:
            await plans.load(missing.digest)
