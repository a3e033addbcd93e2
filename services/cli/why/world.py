"""What the broker and its buckets say around an execution: pools and their queues, workers, places of keys, who of the
control services is there and how far they have read. Each is asked for only when the log makes it a question."""

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from shared.bus import kv, pool_consumer, topology
from shared.bus.jetstream import JetStreamBus, nanoseconds
from shared.bus.membership import Notice
from shared.bus.request import NotFound
from shared.engine import ledger
from shared.engine.ledger import Ledger
from shared.engine.why_facts import Place, Pool, Queued, Worker
from shared.events import subjects
from shared.events.beat import Beat
from shared.events.stamp import seconds
from shared.runtime import pool_state
from shared.runtime.partitions import Cursor

LISTEN_S = 1.5  # members say every second that they are there
MAX_WALK = 500  # commands looked at to count those before one
MAX_PLACED = 50  # commands of an execution whose place in the queue is looked up


class Around:
    def __init__(self, bus: JetStreamBus, partitions: int) -> None:
        self._bus, self._partitions = bus, partitions
        self._members: dict[str, tuple[str, ...]] = {}

    async def pool(self, name: str) -> Pool:
        """The consumer says whether it delivers, the document who does not want it to and why."""
        queue = await pool_consumer.look(self._bus, name)
        if queue is None:
            return Pool(name, known=False)
        found = await pool_state.read(self._bus, name, time.time())
        paused, documented = found.paused, found.entry is not None
        until = seconds(queue.paused_until) if queue.paused_until not in ("", pool_consumer.FOR_EVER) else 0.0
        return Pool(
            name, True, queue.pending, queue.in_flight, queue.last, topology.COMMAND_LEASE_S, bool(queue.paused_until),
            paused.until if paused is not None else until, paused.at if paused is not None else 0.0,
            paused.by if paused is not None else "", paused.note if paused is not None else "",
            found.desired is not None, found.desired or 0, found.state if documented else "",
            found.message if documented else "",
        )

    async def workers(self) -> tuple[Worker, ...]:
        """`heard` by this machine's clock: the broker says how long ago it was."""
        stream = kv.stream_of(topology.WORKERS)
        info = await self._bus.requests.api(f"STREAM.INFO.{stream}")
        now, found = nanoseconds(info["ts"]), list[Worker]()
        for key, data in (await self._bus.kv_all(topology.WORKERS)).items():
            beat = msgspec.json.decode(data, type=Beat)
            at = await self._time(stream, kv.subject_of(topology.WORKERS, key))
            if at is not None:
                heard = time.time() - max(now - at, 0) / 1e9
                found.append(Worker(beat.worker, beat.pool, beat.slots, frozenset(beat.held), beat.room, heard,
                                    beat.draining, beat.started))
        return tuple(found)

    async def time_of(self, stream: str, seq: int) -> float:
        """When the broker took it; now, if it is gone."""
        message = await self._message(stream, {"seq": seq})
        return nanoseconds(message["time"]) / 1e9 if message is not None else time.time()

    async def _time(self, stream: str, subject: str) -> int | None:
        message = await self._message(stream, {"last_by_subj": subject})
        return nanoseconds(message["time"]) if message is not None else None

    async def _message(self, stream: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = (await self._bus.requests.api(f"STREAM.MSG.GET.{stream}", asked))["message"]
        except NotFound:
            return None
        return found

    # -- the queue ---------------------------------------------------------------------

    async def queued(self, execution_id: str, pools: Iterable[Pool]) -> dict[Place, Queued]:
        """The commands of an execution that are in the queue, delivered or not."""
        found: dict[Place, Queued] = {}
        for pool in pools:
            prefix = f"{subjects.COMMANDS}.{pool.name}.{execution_id}."
            asked = {"subjects_filter": prefix + ">"}
            try:
                info = await self._bus.requests.api(f"STREAM.INFO.{topology.COMMANDS}", asked)
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
        """The commands that nobody has got yet, the first MAX_WALK of them, and how many stand before each."""
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
                found[key] = ledger.decode(entry.value)
        return found

    async def cursors(self, execution_id: str) -> dict[str, int]:
        partition, found = subjects.partition_of(execution_id, self._partitions), {}
        for service in ("router", "scheduler"):
            entry = await self._bus.kv_get(topology.CURSORS, f"{service}.{partition}")
            if entry is not None:
                found[service] = msgspec.json.decode(entry.value, type=Cursor).seq
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
                notice = msgspec.json.decode(await inboxes[service].next(), type=Notice)
                if notice.kind != "bye":
                    found[service] = (notice.instance,)

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

