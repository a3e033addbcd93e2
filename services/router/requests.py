"""Execution requests: from the work queue to the first record of an execution.

The execution id is the request's own, or derived from its `Nats-Msg-Id`, or from its place in the
queue; the first record expects an empty subject. So a request that comes twice starts one
execution, however far apart the two are.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from services.router import wishes
from services.router.core import RouterCore
from services.router.notes import Notes
from services.router.reruns import Reruns
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.plan import Plan
from shared.engine import offers, routing
from shared.engine.execution import LIVE, Execution, evolve
from shared.engine.large import shrink
from shared.errors import Conflict, Corrupt, NoetlError, Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, encode
from shared.events.record import decode as decode_record
from shared.events.request import Request, decode, decode_control, derive_id
from shared.events.stamp import seconds, stamp
from shared.runtime import catalog, pool_offers, results
from shared.runtime.plans import Plans

log = structlog.get_logger()
PREFETCH = 256
REPLY_HEADER = "Noetl-Reply-To"
MSG_ID_HEADER = "Nats-Msg-Id"
Adopt = Callable[[int, str, Execution], None]


class Requests:
    """`adopt(partition, execution_id, state)` is told of every execution started here."""

    def __init__(
        self, bus: Bus, clock: Clock, plans: Plans, partitions: int, adopt: Adopt, notes: Notes
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._plans = plans
        self._partitions = partitions
        self._adopt = adopt
        self._notes = notes
        self._wishes = wishes.Wishes(bus, partitions, notes)
        self._reruns = Reruns(bus, plans, partitions, RouterCore.listens)
        self._epoch = 0
        self._offers: list[offers.Offer] | None = None  # read once for a batch that asks for it
        self._answers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Takes requests for ever; cancel to stop: what was not started is handed back."""
        self._epoch = await self._created()
        consumer = await self._bus.consume(topology.REQUESTS, "router", PREFETCH)
        try:
            while True:
                await self.take(await consumer.batch(PREFETCH))
        finally:
            await consumer.close()

    async def _created(self) -> int:
        while True:
            try:
                return await self._bus.created(topology.REQUESTS)
            except Unavailable as error:
                log.warning("requests.wait", error=str(error))
                await self._clock.sleep(1.0)

    async def take(self, batch: Sequence[Delivery]) -> None:
        """One look into the catalogue per path and version for the whole batch."""
        self._offers = None
        wanted: dict[tuple[str, str], list[tuple[Delivery, Request]]] = {}
        for delivery in batch:
            if delivery.subject in wishes.SUBJECTS:
                await self._wish(delivery)
                continue
            if delivery.subject == subjects.RERUN:
                await self._rerun(delivery)
                continue
            try:
                request = decode(delivery.data)
            except Corrupt as error:
                await self._bury(delivery, str(error))
                continue
            wanted.setdefault((request.path, request.version), []).append((delivery, request))
        for (path, version), group in wanted.items():
            try:
                plan = await self._plan(path, version)
            except NoetlError as error:
                log.warning("request.later", path=path, error=str(error))
                for delivery, _ in group:
                    await delivery.nak(1.0)
                continue
            for delivery, request in group:
                await self._begin(delivery, request, plan)

    async def _wish(self, delivery: Delivery) -> None:
        try:
            answer = await self._wishes.take(delivery)
        except Corrupt as error:
            await self._bury(delivery, str(error))
            return
        if answer is None:
            await delivery.nak(1.0)
            return
        await self._send(delivery, answer)
        await delivery.ack()

    async def _rerun(self, delivery: Delivery) -> None:
        try:
            asked = decode_control(delivery.data)
            execution_id = self._execution_id(delivery)
            prepared = await self._reruns.prepare(asked, execution_id)
        except Corrupt as error:
            await self._bury(delivery, str(error))
        except NoetlError as error:
            log.warning("request.later", error=str(error))
            await delivery.nak(1.0)
        else:
            if isinstance(prepared, str):
                await self._reply(delivery, "", "failed", {"kind": "request", "message": prepared})
                await delivery.ack()
            else:
                await self._begin(delivery, prepared.request, prepared.plan, prepared.restored)

    def _execution_id(self, delivery: Delivery) -> str:
        """From the request's own id, or from its place in the stream of requests."""
        request_id = (delivery.headers or {}).get(MSG_ID_HEADER, "")
        return derive_id("id", request_id) if request_id else derive_id("seq", self._epoch, delivery.seq)

    async def _plan(self, path: str, version: str) -> Plan | str:
        """The plan, or the reason why there is none."""
        try:
            entry = await catalog.find(self._bus, path, version)
            return await self._plans.load(entry.digest)
        except (catalog.NotRegistered, Corrupt) as error:
            return str(error)

    async def _pools(self, plan: Plan | str) -> dict[str, str] | str:
        """For the steps that require capabilities; the reason when no pool has them."""
        if isinstance(plan, str) or not offers.needs(plan.steps):
            return {}
        if self._offers is None:
            self._offers = await pool_offers.read(self._bus, self._clock.now())
        return offers.choose(plan.steps, self._offers)

    async def _begin(
        self, delivery: Delivery, request: Request, plan: Plan | str, restored: ev.PlaybookRestored | None = None
    ) -> None:
        request_id = (delivery.headers or {}).get(MSG_ID_HEADER, "")
        execution_id = request.execution_id or self._execution_id(delivery)
        ts = stamp(self._clock.now())
        partition = subjects.partition_of(execution_id, self._partitions)
        values: dict[str, Any] = {}

        def start() -> list[ev.Event]:
            return routing.start(execution_id, request, request_id, plan, seconds(ts), restored, values, pools)

        try:
            pools = await self._pools(plan)
            events, blobs = shrink(execution_id, await results.brought(self._bus, values, start))
            record = Record(execution_id, "router", 1, ts, tuple(events))
            await results.store(self._bus, execution_id, blobs)
            future = await self._bus.send(subjects.event(partition, execution_id, "router"), encode(record), expected=0)
        except NoetlError as error:
            log.warning("request.later", execution_id=execution_id, error=str(error))
            await delivery.nak(1.0)
            return
        future.add_done_callback(partial(self._begun, delivery, partition, record))

    def _begun(self, delivery: Delivery, partition: int, record: Record, future: "asyncio.Future[int]") -> None:
        """The state is adopted right here: the first report of the execution may be the very next message."""
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            state = evolve(Execution(record.execution_id), record, future.result())
            if state.status in LIVE:
                self._adopt(partition, record.execution_id, state)
            answer = self._answer(delivery, state)
        else:
            answer = self._not_begun(delivery, partition, record, error)
        task = asyncio.ensure_future(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, delivery: Delivery, state: Execution) -> None:
        status = "started" if state.status != "failed" else "failed"
        await self._reply(delivery, state.execution_id, status, state.error)
        await self._tell_end(delivery, state)

    async def _not_begun(
        self, delivery: Delivery, partition: int, record: Record, error: BaseException
    ) -> None:
        if isinstance(error, Conflict):
            await self._reply(delivery, record.execution_id, "duplicate")
            await self._again(delivery, partition, record)
        else:
            log.warning("request.later", execution_id=record.execution_id, error=str(error))
            await delivery.nak(1.0)

    async def _again(self, delivery: Delivery, partition: int, record: Record) -> None:
        """The same request before may have started a child that was over at once, and no one said so."""
        requested, execution_id = record.events[0], record.execution_id
        if not isinstance(requested, ev.ExecutionRequested) or requested.parent is None:
            await delivery.ack()
            return
        subject = subjects.event(partition, execution_id, "router")
        try:
            known = await self._bus.read(topology.events_stream(partition), [subject])
        except NoetlError as error:
            log.warning("request.later", execution_id=execution_id, error=str(error))
            known = []
        if not known:
            await delivery.nak(1.0)
            return
        await self._tell_end(delivery, evolve(Execution(execution_id), decode_record(known[0].data), known[0].seq))

    async def _tell_end(self, delivery: Delivery, state: Execution) -> None:
        """The request is taken when whoever waits for an execution that is over already knows."""
        try:
            for note in routing.told(state):
                await self._notes.tell(note)
        except NoetlError as error:
            log.warning("request.later", execution_id=state.execution_id, error=str(error))
            await delivery.nak(1.0)
            return
        await delivery.ack()

    async def _reply(
        self, delivery: Delivery, execution_id: str, status: str, error: dict[str, object] | None = None
    ) -> None:
        await self._send(delivery, {"execution_id": execution_id, "status": status, "error": error})

    async def _send(self, delivery: Delivery, answer: dict[str, object]) -> None:
        inbox = (delivery.headers or {}).get(REPLY_HEADER)
        if inbox:
            with suppress(NoetlError):  # the caller can ask again; the execution does not depend on it
                await self._bus.publish(inbox, msgspec.json.encode(answer))

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        """A request that no router will ever understand: kept where people look, and answered."""
        log.error("request.corrupt", error=reason)
        request_id = (delivery.headers or {}).get(MSG_ID_HEADER, "")
        note = msgspec.json.encode({
            "reason": reason, "subject": delivery.subject, "id": request_id,
            "request": delivery.data.decode(errors="replace"),
        })
        try:
            await self._bus.append(subjects.dead("requests"), note)
        except NoetlError:
            await delivery.nak(1.0)
            return
        await self._reply(delivery, "", "failed", {"kind": "request", "message": reason})
        await delivery.ack()


