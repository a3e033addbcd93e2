"""What the broker and its buckets say around an execution: pools and their queues, workers, places of keys, who of the
control services is there and how far they have read. Each is asked for only when the log makes it a question."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from services.cli.stack.remedies import pool_message
from shared.answers.why.facts import Pool, Queued, RunKey, Worker
from shared.bus import api, kv, pool_consumer, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.membership import decode
from shared.bus.wire import nanoseconds
from shared.engine.scheduling import limit_ledger
from shared.engine.scheduling.limit_ledger import Ledger
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.stamp import seconds
from shared.runtime.control.partitions import decode_cursor
from shared.runtime.stores import heartbeats, pool_state

LISTEN_S = 1.5  # members say every second that they are there
MAX_WALK = 500  # commands looked at to count those before one
MAX_PLACED = 50  # commands of an execution whose place in the queue is looked up


class Around:
    def __init__(self, bus: JetStreamBus, partitions: int) -> None:
        self._bus, self._partitions = bus, partitions
        self._members: dict[str, tuple[str, ...]] = {}
        self.skews: dict[str, float] = {}  # of the members that were heard

    async def pool(self, name: str) -> Pool:
        """The consumer says whether it delivers, the document who does not want it to and why."""
        queue = await pool_consumer.look(self._bus, name)
        if queue is None:
            return Pool(name, known=False)
        found = await pool_state.read(self._bus, name, await self._bus.time())
        paused, documented = found.paused, found.entry is not None
        until = seconds(queue.paused_until) if queue.paused_until not in ("", pool_consumer.FOR_EVER) else 0.0
        return Pool(
            name=name, known=True, pending=queue.pending, held=queue.in_flight, delivered=queue.last,
            lease_s=topology.COMMAND_LEASE_S, paused=bool(queue.paused_until),
            paused_until=paused.until if paused is not None else until,
            paused_at=paused.at if paused is not None else 0.0, paused_by=paused.by if paused is not None else "",
            paused_note=paused.note if paused is not None else "", managed=found.desired is not None,
            wanted=found.desired or 0, state=found.state if documented else "",
            message=pool_message(found) if documented else "", floor=queue.floor,
            silent={worker.name: worker.silent_since for worker in found.workers if worker.silent_since},
            scaled=found.pool is not None and found.pool.is_scaled_by_others,
        )

    async def workers(self) -> tuple[Worker, ...]:
        stream = kv.stream_of(topology.WORKERS)
        found = list[Worker]()
        for key, beat in (await heartbeats.read_all(self._bus)).items():
            at = await self._time(stream, kv.subject_of(topology.WORKERS, key))
            if at is not None:
                found.append(Worker(
                    name=beat.worker, pool=beat.pool, slots=beat.slots, held=frozenset(beat.held), room=beat.room,
                    heard=at / 1e9, draining=beat.draining, started=beat.started, skew=beat.skew,
                    busy=tuple(beat.busy), says=tuple(beat.says),
                ))
        return tuple(found)

    async def _time(self, stream: str, subject: str) -> int | None:
        message = await self._message(stream, {"last_by_subj": subject})
        return nanoseconds(message["time"]) if message is not None else None

    async def _message(self, stream: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = (await self._bus.requests.api(api.message_get(stream), asked))["message"]
        except NotFound:
            return None
        return found

    # -- the queue ---------------------------------------------------------------------

    async def queued(self, execution_id: str, pools: Iterable[Pool]) -> dict[RunKey, Queued]:
        """The commands of an execution that are in the queue, delivered or not."""
        found: dict[RunKey, Queued] = {}
        for pool in pools:
            prefix = f"{subjects.COMMANDS}.{pool.name}.{execution_id}."
            asked = {"subjects_filter": prefix + ">"}
            try:
                info = await self._bus.requests.api(api.stream_info(topology.COMMANDS), asked)
            except NotFound:
                return {}
            there = list(info["state"].get("subjects") or {})
            waits = await self._order(pool) if there else {}
            for number, subject in enumerate(there):
                looked = number < MAX_PLACED
                place = subjects.command_of(prefix, subject)
                found[place] = await self._queued(subject, waits) if looked else Queued()
        return found

    async def _queued(self, subject: str, waits: dict[str, int]) -> Queued:
        message = await self._message(topology.COMMANDS, {"last_by_subj": subject})
        if message is None:
            return Queued()
        return Queued(message["seq"], nanoseconds(message["time"]) / 1e9, waits.get(subject, -1))

    async def _order(self, pool: Pool) -> dict[str, int]:
        """The commands that no worker has yet, the first MAX_WALK of them, and how many are before each."""
        found: dict[str, int] = {}
        after, wanted = pool.delivered + 1, subjects.commands_of(pool.name)
        for number in range(min(pool.pending, MAX_WALK)):
            message = await self._message(topology.COMMANDS, {"seq": after, "next_by_subj": wanted})
            if message is None:
                break
            found[message["subject"]], after = number, message["seq"] + 1
        return found

    # -- places of keys, and the control services --------------------------------------

    async def ledgers(self, keys: Iterable[str]) -> dict[str, Ledger]:
        found = {}
        for key in keys:
            entry = await self._bus.kv_get(topology.LIMITS, kv.encode_key(key))
            if entry is not None:
                found[key] = limit_ledger.decode(entry.value)
        return found

    async def cursors(self, execution_id: str) -> dict[str, int]:
        partition, found = subjects.partition_of(execution_id, self._partitions), {}
        for service in ("router", "scheduler"):
            entry = await self._bus.kv_get(topology.CURSORS, f"{service}.{partition}")
            if entry is not None:
                found[service] = decode_cursor(entry.value).seq
        return found

    async def members(self, services: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Those that say within LISTEN_S that they are there; no longer than until one of each has, and once."""
        unheard = [service for service in services if service not in self._members]
        self._members |= await self._listen(unheard)
        return {service: self._members[service] for service in services}

    async def _listen(self, services: Collection[str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = dict.fromkeys(services, ())
        inboxes = {service: await self._bus.subscribe(subjects.member(service)) for service in services}

        async def hear(service: str) -> None:
            while not found[service]:
                with suppress(Corrupt):
                    notice = decode(await inboxes[service].next())
                    if notice.kind == "bye":
                        continue
                    found[service] = (notice.instance,)
                    self.skews[f"{service} {notice.instance}"] = notice.skew

        tasks = [asyncio.ensure_future(hear(service)) for service in services]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=LISTEN_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for inbox in inboxes.values():
                await inbox.close()
        return found

