"""The log of one execution with its sequences, and the plans and stored values that whoever reads it asks for."""

from collections.abc import Callable
from typing import Any, TypeVar

from services.cli import exits
from services.cli.exits import CliError
from shared.bus.ports import Bus
from shared.bus.topology import events_stream
from shared.engine.large import Missing
from shared.events import subjects
from shared.events.record import Record, decode
from shared.runtime import results
from shared.runtime.plans import PlanMissing, Plans

T = TypeVar("T")
Entry = tuple[int, Record]


class Logbook:
    """`plans(digest)` gives a compiled plan, `values` holds stored values by checksum; what is not there yet raises
    PlanMissing or Missing, and `ask` brings it."""

    def __init__(self, bus: Bus, execution_id: str, entries: list[Entry], plans: Plans | None = None) -> None:
        self._bus, self.execution_id, self.entries = bus, execution_id, entries
        self.plans = plans or Plans(bus)
        self.values: dict[str, Any] = {}

    @property
    def records(self) -> list[Record]:
        return [record for _, record in self.entries]

    async def ask(self, work: Callable[[], T]) -> T:
        """Runs pure work until nothing is missing."""
        while True:
            try:
                return work()
            except Missing as missing:
                self.values[missing.ref.checksum] = await results.load(self._bus, missing.ref)
            except PlanMissing as missing:
                await self.plans.load(missing.digest)


async def read(bus: Bus, execution_id: str, partitions: int, plans: Plans | None = None) -> Logbook:
    """Exit code 7 when nobody knows the execution."""
    partition = subjects.partition_of(execution_id, partitions)
    found = await bus.read(events_stream(partition), [subjects.events_of(partition, execution_id)])
    if not found:
        what = f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return Logbook(bus, execution_id, [(message.seq, decode(message.data)) for message in found], plans)
