"""Services with one promise taken away each. The seeds must find every one of them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import msgspec

from services.router.requests import Requests
from services.worker import history
from shared.bus.memory.bus import MemoryBus
from shared.engine.leases import fence
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import local_history
from shared.engine.routing import state as execution
from shared.engine.scheduling import cursor_rows, waits
from shared.engine.scheduling import state as schedule
from shared.events import record as records
from shared.events.record import Epoch, Record
from shared.runtime.control.shell import Shell
from shared.runtime.service.clock import BrokerClock
from tests.sim.world import PARTITIONS

Mutant = Callable[[], Any]


@contextmanager
def no_expected_sequence() -> Iterator[None]:
    """The broker does not compare the expected sequence of an append."""
    store = MemoryBus._store

    def careless(self: MemoryBus, subject: str, data: bytes, expected: int | None, headers: Any) -> int:
        return store(self, subject, data, None if subject.startswith("noetl.events") else expected, headers)

    with mock.patch.object(MemoryBus, "_store", careless):
        yield


@contextmanager
def ack_before_append() -> Iterator[None]:
    """A request is acknowledged, and a message handled, before what follows from it is in the log."""
    begin, turn = Requests._begin, Shell.turn

    async def hasty_begin(self: Requests, delivery: Any, request: Any, plan: Any) -> None:
        await delivery.ack()
        await begin(self, delivery, request, plan)

    async def hasty_turn(self: Shell[Any], actor: Any) -> None:
        self._handled(actor.carried + [seq for seq, _ in actor.inbox])
        await turn(self, actor)

    with mock.patch.object(Requests, "_begin", hasty_begin), mock.patch.object(Shell, "turn", hasty_turn):
        yield


@contextmanager
def stale_cached_state() -> Iterator[None]:
    """A refused append does not throw the state away: the next decision is made from it as well."""

    def stubborn(self: Shell[Any], actor: Any, taken: list[int]) -> None:
        actor.carried += taken
        self._prepare_soon(actor)

    with mock.patch.object(Shell, "_failed", stubborn):
        yield


@contextmanager
def no_epoch_fence() -> Iterator[None]:
    """Readers take a report under whatever lease it was written: no epoch is higher than another."""

    def counts(record: Record, epoch: Epoch, n: int) -> bool:
        assert record.lease is not None
        return record.lease.epoch != epoch or record.n > n

    def is_outranked(*_: Any) -> bool:
        return False

    accept = history.accept

    def accept_all(found: list[Record], run_id: str, index: int, known: Any = None) -> history.History:
        return msgspec.structs.replace(accept(found, run_id, index, known), epoch=_AnyEpoch())

    with ExitStack() as patches:
        for module in (fence, execution):
            patches.enter_context(mock.patch.object(module, "counts", counts))
        for module in (fence, schedule, waits, cursor_rows, local_history):
            patches.enter_context(mock.patch.object(module, "is_outranked", is_outranked))
        patches.enter_context(mock.patch.object(history, "accept", accept_all))
        yield


class _AnyEpoch(tuple[int, int]):
    """Neither before nor after any other: whoever asks whether it is the own one is told so."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False


@contextmanager
def dedupe_by_message_id_alone() -> Iterator[None]:
    """An execution's id is new for every delivery, and its first record expects nothing: only the broker's
    window keeps a request from starting twice."""
    begin, store = Requests._begin, MemoryBus._store
    count = iter(range(1_000_000))

    async def trusting_begin(self: Requests, delivery: Any, request: Any, plan: Any) -> None:
        if not request.execution_id:
            request = msgspec.structs.replace(request, execution_id=f"new{next(count)}")
        await begin(self, delivery, request, plan)

    def trusting_store(self: MemoryBus, subject: str, data: bytes, expected: int | None, headers: Any) -> int:
        return store(self, subject, data, expected or None if subject.endswith(".router") else expected, headers)

    with (
        mock.patch.object(Requests, "_begin", trusting_begin),
        mock.patch.object(MemoryBus, "_store", trusting_store),
    ):
        yield


@contextmanager
def split_decision() -> Iterator[None]:
    """A decision is appended as two records, half of its events in each."""
    send = MemoryBus.send

    async def halves(
        self: MemoryBus, subject: str, data: bytes, *, expected: int | None = None, headers: Any = None,
        on: int | None = None,
    ) -> "asyncio.Future[int]":
        if not subject.endswith((".router", ".scheduler")):
            return await send(self, subject, data, expected=expected, headers=headers, on=on)
        first, second = _halves(records.decode(records.Kept(subject, data), PARTITIONS))
        if second is None:
            return await send(self, subject, data, expected=expected, headers=headers)
        future = await send(self, subject, records.encode(first), expected=expected, headers=headers)
        await asyncio.wait({future})
        if future.exception() is not None:
            return future
        return await send(self, subject, records.encode(second), expected=future.result(), headers=headers)

    with mock.patch.object(MemoryBus, "send", halves):
        yield


def _halves(record: Record) -> tuple[Record, Record | None]:
    events: Sequence[Any] = record.events
    if len(events) < 2:
        return record, None
    cut = len(events) // 2
    first = msgspec.structs.replace(record, events=tuple(events[:cut]))
    return first, msgspec.structs.replace(record, n=record.n + cut, events=tuple(events[cut:]))


@contextmanager
def wall_time() -> Iterator[None]:
    """Services go by the clock of their machine."""
    with mock.patch.object(BrokerClock, "now", lambda self: self._host.now()):
        yield


@contextmanager
def effects_like_reads() -> Iterator[None]:
    """A call with an effect starts while what it was made of is still on its way to the log."""
    with mock.patch.object(pipeline_call, "only_reads", return_value=True):
        yield


MUTANTS: dict[str, Mutant] = {
    "no expected sequence": no_expected_sequence,
    "ack before append": ack_before_append,
    "stale cached state": stale_cached_state,
    "no epoch fence": no_epoch_fence,
    "dedupe by message id alone": dedupe_by_message_id_alone,
    "split decision": split_decision,
    "wall time": wall_time,
    "effects like reads": effects_like_reads,
}
