"""Execution requests: from the work queue to the first record of an execution.

The execution id is the request's own, or derived from its `Nats-Msg-Id`, or from its place in the
queue; the first record expects an empty subject. So a request that comes twice starts one
execution, however far apart the two are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from services.router import control_requests, identity, refusals
from services.router.capacity import Room
from services.router.grounds import NO_GROUND, Grounds
from services.router.notes import Notes
from services.router.reruns import Kept, Reruns
from services.router.wish_lines import Lines
from shared.bus import dead_letters, topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import Plan
from shared.engine.routing import decide as routing
from shared.engine.routing.parent_notes import parent_notes
from shared.engine.routing.state import LIVE, Execution, accepted, evolve
from shared.engine.values.stored_values import shrink
from shared.errors import Conflict, Corrupt, NoetlError, Refused, Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.bounds import MAX_LETTER_REASON, MAX_PATH, MAX_REQUEST_ID
from shared.events.failure import CAPACITY, REQUEST, Failure
from shared.events.headers import MESSAGE_ID, REPLY_TO, request_id
from shared.events.letter import short
from shared.events.note import Note
from shared.events.record import Record, encode
from shared.events.record import decode as decode_record
from shared.events.request import Request, decode, decode_child, decode_control, decode_derived, default_id
from shared.events.stamp import recorded, stamp
from shared.runtime.control.letter_quota import MAX_REQUESTS, Quota
from shared.runtime.service.background import Tasks
from shared.runtime.stores import catalog, results
from shared.runtime.stores.plans import Plans
from shared.runtime.stores.readiness import Readiness

log = structlog.get_logger()
ORIGIN = "requests"
ENGINE = "engine"  # whose letters clients cannot cause
PREFETCH = 256
HOLD_S = 5.0
MAX_HELD = 1024  # of the 4,096 requests that may be with routers
MAX_DELIVERIES = 50  # with the pauses between them, three quarters of an hour
LONGEST_PAUSE_S = 60.0
FULL_S = 600.0  # after there was no room: within this time, a request that was delivered often was only held
DERIVED = frozenset({subjects.CHILD, subjects.DERIVED})  # whose ids follow from their cause
Adopt = Callable[[int, str, Execution], None]


class Requests:
    """`adopt(partition, execution_id, state)` is called for every execution started here."""

    def __init__(
        self, bus: Bus, clock: Clock, plans: Plans, partitions: int, adopt: Adopt, notes: Notes, room: Room,
        readiness: Readiness, retention: tuple[str, ...] = (),
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._plans = plans
        self._partitions = partitions
        self._adopt = adopt
        self._notes = notes
        self._room = room
        self._grounds = Grounds(bus, clock, readiness)
        self._held: set[int] = set()
        self._full_at = float("-inf")
        self._wishes = control_requests.Wishes(bus, clock, partitions, notes, plans)
        self._lines = Lines(lambda delivery: self._safely(delivery, self._wish(delivery)))
        self._reruns = Reruns(bus, plans, partitions, Kept(bus, clock, retention))
        self._epoch = 0
        self._over: list[Delivery] = []  # to be acknowledged together
        self._answers = Tasks()
        self._quota = Quota(clock.now, ORIGIN, MAX_REQUESTS)
        self.taken = self.started = 0

    async def run(self) -> None:
        """Takes requests for ever; cancel to stop: what was not started is handed back."""
        self._epoch = await self._created()
        consumer = await self._bus.consume(topology.REQUESTS, "router", PREFETCH, keep=True)
        try:
            while True:
                await self.take(await consumer.batch(PREFETCH))
        finally:
            await self._lines.stop()
            await consumer.close()

    async def _created(self) -> int:
        while True:
            try:
                return await self._bus.created(topology.REQUESTS)
            except Unavailable as error:
                log.warning("requests.wait", error=str(error))
                await self._clock.sleep(1.0)

    async def take(self, batch: Sequence[Delivery]) -> None:
        """Reads the catalogue once per path and version for the whole batch."""
        self.taken += len(batch)
        self._grounds.forget()
        if self._room.full:
            self._full_at = self._clock.now()
        else:
            self._held.clear()
        wanted: dict[identity.Name, list[tuple[Delivery, Request]]] = {}
        for delivery in batch:
            if delivery.subject not in control_requests.SUBJECTS:
                await self._safely(delivery, self._sort(delivery, wanted))
            elif not self._lines.add(control_requests.about(delivery), delivery):
                await delivery.nak(pause_s(delivery.epoch[1]))
        for name, group in wanted.items():
            plan = await self._plan(*name)
            for delivery, request in group:
                if isinstance(plan, NoetlError):
                    await self._later(delivery, plan, request.execution_id)
                else:
                    await self._safely(delivery, self._begin(delivery, request, plan))

    async def _sort(self, delivery: Delivery, wanted: dict[identity.Name, list[tuple[Delivery, Request]]]) -> None:
        """Requests for an execution of a playbook are collected, to be started together."""
        self._check(delivery)
        match delivery.subject:
            case subjects.RERUN:
                await (self._refuse if self._room.full else self._rerun)(delivery)
            case subjects.CHILD:  # there is always room for one: its parent cannot end without it
                request, reason = decode_child(delivery.data)
                if reason := reason or self._given_up(delivery):  # whoever waits for it gets an answer
                    await self._begin(delivery, replace(request, path=request.path[:MAX_PATH], payload={}), reason)
                else:
                    wanted.setdefault(identity.name(request), []).append((delivery, request))
            case subjects.EXECUTE | subjects.DERIVED:
                try:
                    request = (decode if delivery.subject == subjects.EXECUTE else decode_derived)(delivery.data)
                except Corrupt as error:
                    await self._refused(delivery, error)
                    return
                if self._room.full:
                    await self._refuse(delivery)
                else:
                    wanted.setdefault(identity.name(request), []).append((delivery, request))
            case _:
                raise Corrupt(f"no router takes requests of this subject: {subjects.REQUESTS} has {subjects.ALL_VERBS}")

    async def _refused(self, delivery: Delivery, error: Corrupt) -> None:
        """What its sender is not told becomes an execution that has failed, if it says under which id; otherwise, and
        while there is no room for one, it is a dead letter."""
        failed = None if self._room.full else refusals.to_start(delivery)
        if failed is None:
            raise error
        await self._begin(delivery, failed, str(error))

    async def _safely(self, delivery: Delivery, work: Awaitable[None]) -> None:
        """Whatever is wrong with one request, the others are served: it becomes a dead letter, and does not come
        again."""
        try:
            await work
        except Unavailable as error:
            await self._later(delivery, error)
        except NoetlError as error:
            await self._bury(delivery, str(error))
        except Exception as error:
            log.exception("request.crashed", seq=delivery.seq)
            await self._bury(delivery, f"no router could handle it: {type(error).__name__}")

    def _given_up(self, delivery: Delivery) -> str:
        """Delivered too often: it may have ended the routers that tried it. Deliveries while there was no room do not
        count."""
        tried = delivery.epoch[1]
        if tried <= MAX_DELIVERIES or self._clock.now() - self._full_at < FULL_S:
            return ""
        return f"tried {tried - 1} times without an end: the routers' logs say why"

    def _check(self, delivery: Delivery) -> None:
        """Handles any request; raises Corrupt with the reason if it cannot."""
        own = request_id(delivery.headers)
        if len(own) > MAX_REQUEST_ID or not own.isprintable():
            raise Corrupt(f"{MESSAGE_ID} is not a line of at most {MAX_REQUEST_ID} characters")
        if delivery.subject != subjects.CHILD and (reason := self._given_up(delivery)):
            raise Corrupt(reason)

    async def _later(self, delivery: Delivery, error: BaseException, execution_id: str = "") -> None:
        log.warning("request.later", execution_id=execution_id, error=str(error))
        await delivery.nak(pause_s(delivery.epoch[1]))

    async def _wish(self, delivery: Delivery) -> None:
        self._check(delivery)
        answer = await self._wishes.take(delivery)
        if isinstance(answer, float):
            await delivery.nak(answer)
        elif isinstance(answer, str):
            await self._unable(delivery, answer, control_requests.about(delivery))
        else:
            await self._send(delivery, answer)
            await delivery.ack()

    async def _unable(self, delivery: Delivery, reason: str, execution_id: str = "") -> None:
        """Nothing is wrong with the request, but there is nothing it could be done to."""
        if not refusals.has_inbox(delivery):
            await self._bury(delivery, reason)
            return
        await self._reply(delivery, execution_id, "failed", Failure(REQUEST, reason).error())
        await delivery.ack()

    async def _rerun(self, delivery: Delivery) -> None:
        prepared = await self._reruns.prepare(decode_control(delivery.data), self._execution_id(delivery))
        if isinstance(prepared, str):
            await self._unable(delivery, prepared)
        else:
            await self._begin(delivery, prepared.request, prepared.plan, prepared.restored)

    def _execution_id(self, delivery: Delivery) -> str:
        return default_id(delivery.headers, self._epoch, delivery.seq)

    async def _plan(self, path: str, version: str, playbook_id: str) -> Plan | str | NoetlError:
        """The plan, the reason why there is none, or the error that is in the way for now."""
        try:
            if playbook_id:
                return await self._plans.load(await catalog.find_id(self._bus, playbook_id))
            entry = await catalog.find(self._bus, path, version)
            return await self._plans.load(plan_name(entry.digest))
        except (catalog.NotRegistered, Corrupt, Refused) as error:
            return str(error)
        except NoetlError as error:
            return error

    async def _begin(
        self, delivery: Delivery, request: Request, plan: Plan | str, restored: ev.PlaybookRestored | None = None
    ) -> None:
        own_id, execution_id = request_id(delivery.headers), request.execution_id or self._execution_id(delivery)
        request = identity.named(request, plan)
        now = recorded(self._clock.now())
        ts = stamp(now)
        partition = subjects.partition_of(execution_id, self._partitions)
        values: dict[str, Any] = {}

        def start() -> routing.Decision:
            return routing.begun(
                execution_id, request, own_id, plan, now, restored, values, pools, unready)

        try:
            pools, unready = await self._grounds.of(plan) if isinstance(plan, Plan) else NO_GROUND
            found, draft = await results.brought(self._bus, values, start)
            events, blobs = shrink(execution_id, found)
            record = Record(execution_id, "router", 1, ts, tuple(events))
            if blobs:
                await results.store(self._bus, execution_id, blobs)
            future = await self._bus.send(subjects.event(partition, execution_id, "router"), encode(record), expected=0)
        except Unavailable as error:
            await self._later(delivery, error, execution_id)
            return
        future.add_done_callback(partial(self._begun, delivery, partition, record, None if blobs else draft))

    def _begun(
        self, delivery: Delivery, partition: int, record: Record, draft: Execution | None, future: "asyncio.Future[int]"
    ) -> None:
        """The state is adopted right here: the first report of the execution may be the very next message. It is the
        `draft` of the decision, unless that was made of values that are not in the record."""
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.started += 1
            if draft is not None:
                state = accepted(draft, record, future.result())
            else:
                state = evolve(Execution(record.execution_id), record, future.result())
            if state.status in LIVE:
                self._adopt(partition, record.execution_id, state)
                if not refusals.has_inbox(delivery):  # nobody is to be told anything yet
                    self._over.append(delivery)
                    if len(self._over) == 1:
                        self._answers.start(self._acknowledge())
                    return
            answer = self._answer(delivery, state)
        else:
            answer = self._not_begun(delivery, partition, record, error)
        self._answers.start(self._safely(delivery, answer))

    async def _acknowledge(self) -> None:
        """All that the broker has confirmed by now: it does so for many at once."""
        over, self._over = self._over, []
        for delivery in over:
            await self._safely(delivery, delivery.ack())

    async def _answer(self, delivery: Delivery, state: Execution) -> None:
        status = "started" if state.status != "failed" else "failed"
        await self._reply(delivery, state.execution_id, status, state.error)
        await self._tell_end(delivery, state)

    async def _not_begun(
        self, delivery: Delivery, partition: int, record: Record, error: BaseException
    ) -> None:
        if isinstance(error, Conflict):
            await self._again(delivery, partition, record)
        else:
            raise error

    async def _again(self, delivery: Delivery, partition: int, asked: Record) -> None:
        """The same request before may have started a child that was over at once, and no one said so. On replicas it
        may also be on its way and never arrive: it is done when it is in the log."""
        execution_id = asked.execution_id
        subject = subjects.event(partition, execution_id, "router")
        known = await self._bus.read(topology.events_stream(partition), [subject])
        if not known:
            await delivery.nak(pause_s(delivery.epoch[1]))
            return
        first = decode_record(known[0], self._partitions)
        if delivery.subject in DERIVED and not identity.is_same(asked, first):
            await self._taken(delivery, asked)
            return
        if not identity.is_repeated(asked, first):
            await self._unable(delivery, f"{execution_id} began by another request: this one starts nothing")
            return
        await self._reply(delivery, execution_id, "duplicate")
        await self._tell_end(delivery, evolve(Execution(execution_id), first, known[0].seq))

    async def _taken(self, delivery: Delivery, asked: Record) -> None:
        """Nobody can ask for a derived id (ADR 33), so this is a hand in the log, or from before that. A parent that
        waits for its child would wait for ever."""
        reason = f"{asked.execution_id} is another execution, which this request did not start: it starts nothing"
        parent = identity.requested(asked).parent
        if parent is not None and not parent.detached:
            error = Failure(REQUEST, reason).error()
            ended = ev.ChildEnded(
                parent.run_id, parent.wait, asked.execution_id, "failed", parent.index, error=error)
            await self._notes.tell(Note(parent.execution_id, asked.execution_id, ended))
        await self._bury(delivery, reason)

    async def _tell_end(self, delivery: Delivery, state: Execution) -> None:
        """The request is done when the parent that waits for an execution that is already over knows of its end."""
        for note in parent_notes(state):
            await self._notes.tell(note)
        await delivery.ack()

    async def _refuse(self, delivery: Delivery) -> None:
        """There is no room. Whoever waits for an answer gets it; what nobody waits for stays in the queue, up to a
        number that leaves the queue open for cancels and signals, and is a dead letter beyond it."""
        if refusals.has_inbox(delivery):
            await self._reply(delivery, "", "failed", Failure(CAPACITY, self._room.full).error())
            await delivery.ack()
        elif delivery.seq in self._held or len(self._held) < MAX_HELD:
            self._held.add(delivery.seq)
            await delivery.nak(HOLD_S)
        else:
            await self._bury(delivery, self._room.full)

    async def _reply(
        self, delivery: Delivery, execution_id: str, status: str, error: dict[str, object] | None = None
    ) -> None:
        await self._send(delivery, {"execution_id": execution_id, "status": status, "error": error})

    async def _send(self, delivery: Delivery, answer: dict[str, object]) -> None:
        if refusals.has_inbox(delivery):
            with suppress(NoetlError):  # the caller can ask again; the execution does not depend on it
                await self._bus.publish((delivery.headers or {})[REPLY_TO], msgspec.json.encode(answer))

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        """A request that no router will ever understand: kept where people look, and answered."""
        log.error("request.corrupt", error=reason)
        place = dead_letters.at_seq(topology.REQUESTS, delivery.seq)
        try:
            if delivery.subject in DERIVED or self._quota.take(""):
                await dead_letters.bury(
                    self._bus, ORIGIN, place, reason, delivery.data, subject=delivery.subject, headers=delivery.headers,
                    owner=ENGINE if delivery.subject in DERIVED else "")
            else:
                await self._quota.tell_over(self._bus, "")
        except NoetlError as error:
            await self._later(delivery, error)
            return
        await self._reply(delivery, "", "failed", Failure(REQUEST, short(reason, MAX_LETTER_REASON)).error())
        await delivery.ack()


def pause_s(delivered: int) -> float:
    """The pause before the next try: short at first, a minute in the end."""
    return float(min(LONGEST_PAUSE_S, 2 ** max(0, min(delivered, 10) - 3)))
