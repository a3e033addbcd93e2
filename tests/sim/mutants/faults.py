"""Promises that matter only with stopped services, cancelled executions or a cluster of brokers: each taken away."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from services.scheduler import stranded
from services.scheduler.stops import Stops
from services.worker.hold import Hold
from services.worker.lease_keeper import Minding
from shared.bus import codes, topology
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Delivery, Message
from shared.bus.replicas import ReplicaReader
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling.state import Schedule
from shared.events import subjects
from shared.events.stop import Stop
from tests.sim.faults.replicas import SimCopies
from tests.sim.mutants.promises import Mutant


@contextmanager
def no_mending() -> Iterator[None]:
    """A command that is in the queue and will never be delivered counts as one that is there."""
    with mock.patch.object(stranded, "is_stranded", return_value=False):
        yield


@contextmanager
def stops_that_purge() -> Iterator[None]:
    """The commands of a run that is stopped are purged by their subject; and nobody looks what that did to others."""

    async def purge(self: Stops, stop: Stop) -> None:
        assert isinstance(self._bus, MemoryBus)
        for subject in subjects.commands_for(stop.pool, stop.execution_id, stop.run_id):
            self._bus.broker.purge(topology.COMMANDS, subject)

    with no_mending(), mock.patch.object(Stops, "_remove", purge):
        yield


@contextmanager
def older_leases() -> Iterator[None]:
    """A worker goes on with a run whatever the log says of it; a command of a run that it holds is handed back."""

    async def refuse(_self: Hold, _command: Any, delivery: Delivery, _mark: int) -> None:
        await delivery.nak(2.0)

    async def stay(self: Hold, _looked: int, _known: Any) -> int:
        return self._around.presence.absences()

    with (
        mock.patch.object(Hold, "take", refuse),
        mock.patch.object(Hold, "stay", stay),
        mock.patch.object(Minding, "look", return_value=None),
    ):
        yield


@contextmanager
def claims_that_extend_nothing() -> Iterator[None]:
    """Who claims a run leaves its lease as it is: that of a worker that was away may be over at once."""

    async def before_claim(self: Hold) -> int:
        return self._around.presence.absences()

    with mock.patch.object(Hold, "before_claim", before_claim):
        yield


@contextmanager
def reads_that_do_not_belong_together() -> Iterator[None]:
    """On a cluster each filter of a read is asked for by itself, whoever answers."""

    async def separate(self: ReplicaReader, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        assert isinstance(self._copies, SimCopies)
        return await self._copies.separate(stream, filters, after)

    with mock.patch.object(ReplicaReader, "read", separate):
        yield


@contextmanager
def unknown_conflict() -> Iterator[None]:
    """What a cluster says of a write that crossed another one is not known, and so counts as refused for good."""
    with mock.patch.dict(codes.MEANINGS):
        del codes.MEANINGS[codes.WRONG_LAST_SEQUENCE_CONSTANT]
        yield


@contextmanager
def one_wait_for_all() -> Iterator[None]:
    """Once a run of an execution has waited, every iteration is sent again as if it had: under an id that does not keep
    its fresh command out of the queue."""

    def by_since(state: Schedule, _run_id: str, indexes: Iterable[int]) -> dict[int, list[int]]:
        return {state.seq if state.waits else 0: list(indexes)}

    with mock.patch.object(scheduling, "_by_since", by_since):
        yield


MUTANTS: dict[str, tuple[Mutant, tuple[str, ...]]] = {
    "no mending": (no_mending, ("for ever",)),
    "stops that purge": (stops_that_purge, ("for ever",)),
    "older leases": (older_leases, ("after a later lease", "fence", "inside at the same time")),
    "claims that extend nothing": (claims_that_extend_nothing, ("lease",)),
    "reads that do not belong together": (
        reads_that_do_not_belong_together, ("for ever", "decision", "call", "broke", "nobody forged")),
    "one wait for all": (one_wait_for_all, ("pipeline", "call")),
    "unknown conflict": (unknown_conflict, ("for ever", "never started")),
}
