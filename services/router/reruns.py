"""A new execution that continues where an earlier one failed, or from a step of it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.rerun import other_version, rerun
from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.dsl.model.edition import plan_name, source_of
from shared.dsl.model.plan import Plan
from shared.engine.routing.state import Execution, evolve, is_over
from shared.engine.values.stored_values import MAX_RECORD_BYTES, MAX_WORKLOAD_BYTES, Unstorable, shrink
from shared.errors import Corrupt, Refused
from shared.events import model as ev
from shared.events import subjects
from shared.events.readers import FOLDED
from shared.events.record import Record, Writer, readable
from shared.events.request import Control, Request
from shared.events.stamp import seconds
from shared.runtime.service.retention import shown
from shared.runtime.stores import catalog, results
from shared.runtime.stores.plans import Plans
from shared.runtime.stores.retention import policy

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


class Kept:
    """Whether large results of an execution are sure to stay for as long as it takes to begin another one.

    They go by their age and a margin (`shared/runtime/retention/`). A rerun that began in time keeps them, since its
    family lives; so one that would begin later than their age is refused."""

    def __init__(self, bus: Bus, clock: Clock, setting: tuple[str, ...]) -> None:
        self._bus, self._clock, self._setting = bus, clock, setting

    async def refusal(self, ended_at: str) -> str:
        """The policy is read anew: reruns are rare, and a change holds at once."""
        kept = (await policy(self._bus, self._setting)).kept.results
        if not kept or self._clock.now() - seconds(ended_at) < kept:
            return ""
        return f"it ended over {shown(kept)} ago, and takes over large results, which are kept no longer than that"


class Reruns:
    """Without `kept`, results are kept for ever."""

    def __init__(self, bus: Bus, plans: Plans, partitions: int, kept: Kept | None = None) -> None:
        self._bus, self._plans, self._partitions, self._kept = bus, plans, partitions, kept

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
        found = rerun.from_step(asked.execution_id, entries, asked.name) if asked.name else await self._failed(entries)
        if isinstance(found, str):
            return found
        first = entries[0][1].events[0]
        assert isinstance(first, ev.ExecutionRequested)
        if why_not := await self._too_old(entries, found):
            return f"execution {asked.execution_id} cannot be taken over: {why_not}"
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

    async def _too_old(self, entries: Sequence[tuple[int, Record]], found: ev.PlaybookRestored) -> str:
        if self._kept is None or not refers(msgspec.to_builtins(found)):
            return ""
        return await self._kept.refusal(_ended_at(entries))

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

    async def _failed(self, entries: Sequence[tuple[int, Record]]) -> ev.PlaybookRestored | str:
        execution_id = entries[0][1].execution_id
        try:
            return await self._what_failed(execution_id)
        except results.ValueMissing:
            if self._kept is None or not (why_not := await self._kept.refusal(_ended_at(entries))):
                raise
            return f"execution {execution_id} cannot be taken over: {why_not}"

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


def _ended_at(entries: Sequence[tuple[int, Record]]) -> str:
    """When the playbook was over: what comes later does not make it younger."""
    return next(
        (record.ts for _, record in entries if any(isinstance(each, ev.PlaybookProcessed) for each in record.events)),
        entries[-1][1].ts)


def refers(value: Any) -> bool:
    """Whether anything within names a value that is stored beside the log."""
    match value:
        case {"store": str(), "key": str(), "checksum": str()}:
            return True
        case dict():
            return any(map(refers, value.values()))
        case list():
            return any(map(refers, value))
    return False
