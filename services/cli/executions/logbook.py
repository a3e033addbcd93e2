"""The log of one execution with its sequences, and the plans and stored values that whoever reads it asks for."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from services.cli.console import exits
from services.cli.console.execution_ids import checked
from services.cli.console.exits import CliError
from services.cli.console.progress import patiently
from shared.bus.ports import Bus
from shared.bus.topology import events_stream
from shared.events import subjects
from shared.events.record import Record, readable
from shared.runtime.stores import results
from shared.runtime.stores.plans import Plans

T = TypeVar("T")
Entry = tuple[int, Record]


class Logbook:
    """`plans(digest)` gives a compiled plan, `values` holds stored values by checksum; what is not there yet raises
    PlanMissing or Missing, and `ask` brings it."""

    def __init__(self, bus: Bus, execution_id: str, entries: list[Entry], plans: Plans | None = None) -> None:
        self.bus, self.execution_id, self.entries = bus, execution_id, entries
        self.plans = plans or Plans(bus)
        self.values: dict[str, Any] = {}

    @property
    def records(self) -> list[Record]:
        return [record for _, record in self.entries]

    async def ask(self, work: Callable[[], T]) -> T:
        """Runs pure work until nothing is missing."""
        return await results.brought(self.bus, self.values, work, self.plans)


async def entries(bus: Bus, execution_id: str, partitions: int) -> list[Entry]:
    stream, subject = _where(execution_id, partitions)
    return list(readable(await bus.read(stream, [subject]), partitions))


async def follow(bus: Bus, execution_id: str, partitions: int) -> AsyncGenerator[list[Entry], None]:
    """Batches of records in log order with their sequences, from the first one on, without an end."""
    stream, subject = _where(execution_id, partitions)
    follower = bus.follow(stream, [subject], 0)
    try:
        while True:
            yield list(readable(await follower.batch(), partitions))
    finally:
        await follower.close()


async def read(bus: Bus, execution_id: str, partitions: int, plans: Plans | None = None) -> Logbook:
    """Exit code 7 when nobody knows the execution."""
    found = await patiently(entries(bus, execution_id, partitions), "reading the log")
    if not found:
        what = f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return Logbook(bus, execution_id, found, plans)


def _where(execution_id: str, partitions: int) -> tuple[str, str]:
    checked(execution_id)
    partition = subjects.partition_of(execution_id, partitions)
    return events_stream(partition), subjects.events_of(partition, execution_id)
