"""A new execution that continues where an earlier one failed, or from a step of it."""

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.rerun import other_version, rerun
from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.model.edition import plan_name, source_of
from shared.dsl.model.plan import Plan
from shared.engine.routing.state import Execution, evolve, is_over
from shared.engine.values.stored_values import MAX_RECORD_BYTES, MAX_WORKLOAD_BYTES, Unstorable, shrink
from shared.errors import Corrupt, Refused
from shared.events import model as ev
from shared.events import subjects
from shared.events.readers import FOLDED
from shared.events.record import Writer, readable
from shared.events.request import Control, Request
from shared.runtime.stores import catalog, results
from shared.runtime.stores.plans import Plans

LATEST = "latest"
MAX_RERUNS = 50  # of each other, that are followed to the first request


class Chosen(Struct, frozen=True):
    """The playbook of the new execution, under which version it is asked for, and its workload."""

    plan: Plan
    version: str
    workload: dict[str, Any]


class Prepared(Struct, frozen=True):
    """What the new execution starts with: its playbook, and what it takes over."""

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
        chosen = await self._chosen(asked, first, state, rerun.kept(entries, found, asked.name), found)
        if isinstance(chosen, str):
            return f"execution {asked.execution_id} cannot continue: {chosen}"
        try:
            (restored,), blobs = shrink(execution_id, [found])
        except Unstorable as error:
            return f"execution {asked.execution_id} cannot be taken over: {error}"
        assert isinstance(restored, ev.PlaybookRestored)
        size = len(msgspec.json.encode(restored))
        if size > MAX_RECORD_BYTES - MAX_WORKLOAD_BYTES:
            return f"execution {asked.execution_id} cannot be taken over: {size} bytes of ctx and args"
        await results.store(self._bus, execution_id, blobs)
        request = Request(
            first.path, chosen.version, chosen.workload, execution_id, labels=first.labels, by=asked.by)
        return Prepared(request, chosen.plan, restored)

    async def _chosen(
        self, asked: Control, first: ev.ExecutionRequested, state: Execution, kept: rerun.Kept,
        found: ev.PlaybookRestored,
    ) -> Chosen | str:
        """The playbook as it was then; or in the version that is asked for, if what is kept fits it."""
        old = await self._plans.load(plan_name(source_of(state.digest)))
        if not asked.version:
            return Chosen(old, first.version, state.workload)
        version = "" if asked.version == LATEST else asked.version
        try:
            entry = await catalog.find(self._bus, first.path, version)
            new = await self._plans.load(plan_name(entry.digest))
        except (catalog.NotRegistered, Corrupt, Refused) as error:
            return str(error)
        given = await self._given(first.payload, found)
        if why_not := other_version.refusal(old, new, kept, found, given):
            return f"version {entry.version} of {entry.path} {why_not}"
        return Chosen(new, entry.version, other_version.workload(old, new, state.workload, given))

    async def _given(self, payload: dict[str, Any], found: ev.PlaybookRestored) -> dict[str, Any]:
        """What the request gave that the work began with: a rerun is given the whole workload of the one before."""
        of = found.of
        for _ in range(MAX_RERUNS):
            entries = await self._entries(of)
            if not entries:  # purged: what is known of it is what was handed on
                break
            events = entries[0][1].events
            payload = next((each.payload for each in events if isinstance(each, ev.ExecutionRequested)), payload)
            before = next((each for each in events if isinstance(each, ev.PlaybookRestored)), None)
            if before is None:
                break
            of = before.of
        return payload

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
