"""A new execution that continues where an earlier one failed, or from a step of it."""

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.rerun import rerun
from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.model.edition import plan_name, source_of
from shared.dsl.model.plan import Plan
from shared.engine.routing.state import Execution, evolve, is_over
from shared.engine.values.stored_values import MAX_RECORD_BYTES, MAX_WORKLOAD_BYTES, Unstorable, shrink
from shared.events import model as ev
from shared.events import subjects
from shared.events.readers import FOLDED
from shared.events.record import Writer, readable
from shared.events.request import Control, Request
from shared.runtime.stores import results
from shared.runtime.stores.plans import Plans


class Prepared(Struct, frozen=True):
    """What the new execution starts with: the playbook as it was then, and what it takes over."""

    request: Request
    plan: Plan
    restored: ev.PlaybookRestored


class Reruns:
    def __init__(self, bus: Bus, plans: Plans, partitions: int) -> None:
        self._bus, self._plans, self._partitions = bus, plans, partitions

    async def prepare(self, asked: Control, execution_id: str) -> Prepared | str:
        """Or the reason why there can be none. Large results are stored for the new execution before it starts."""
        entries = await self._entries(asked.execution_id)
        state = Execution(asked.execution_id)
        for seq, record in entries:
            state = evolve(state, record, seq)
        if not entries:
            return f"there is no execution {asked.execution_id}"
        if not is_over(state):
            return f"execution {asked.execution_id} is {state.status}: cancel it first, or wait for its end"
        found = (
            rerun.from_step(asked.execution_id, entries, asked.name)
            if asked.name else await self._what_failed(asked.execution_id)
        )
        if isinstance(found, str):
            return found
        first = entries[0][1].events[0]
        assert isinstance(first, ev.ExecutionRequested)
        try:
            (restored,), blobs = shrink(execution_id, [found])
        except Unstorable as error:
            return f"execution {asked.execution_id} cannot be taken over: {error}"
        assert isinstance(restored, ev.PlaybookRestored)
        size = len(msgspec.json.encode(restored))
        if size > MAX_RECORD_BYTES - MAX_WORKLOAD_BYTES:
            return f"execution {asked.execution_id} cannot be taken over: {size} bytes of ctx and args"
        await results.store(self._bus, execution_id, blobs)
        request = Request(first.path, first.version, state.workload, execution_id, labels=first.labels, by=asked.by)
        return Prepared(request, await self._plans.load(plan_name(source_of(state.digest))), restored)

    async def _what_failed(self, execution_id: str) -> ev.PlaybookRestored | str:
        """What the iterations of loops left is read for this alone; a large loop takes a second or two to fold."""
        entries = await self._entries(execution_id, subjects.ITERATION)
        values: dict[str, Any] = {}
        failed = partial(rerun.what_failed, execution_id, entries, values)
        return await results.brought(self._bus, values, failed, run=asyncio.to_thread)

    async def _entries(self, execution_id: str, *more: Writer) -> list[tuple[int, Any]]:
        partition = subjects.partition_of(execution_id, self._partitions)
        filters = subjects.written(partition, execution_id, (*FOLDED["router"], *more))
        return list(readable(await self._bus.read(topology.events_stream(partition), filters), self._partitions))
