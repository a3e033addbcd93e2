"""What people want of existing executions: each request becomes a fact in the execution's log, and the log's owner
decides. The same request twice is the same fact.

Whoever waits for an answer is told when a request would change nothing: its execution is over, or no task of it can
take the signal. For who does not wait, the log answers: what was to stop has stopped, and `why` shows signals that
nothing takes. Nobody would find a signal in the log of an execution that is over: it is a dead letter."""

import asyncio

import structlog

from services.router import refusals
from services.router.notes import Notes
from shared.answers.history.end import digest
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Delivery
from shared.dsl.model.plan import Plan
from shared.engine.scheduling import planned_signals
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events import subjects
from shared.events.headers import request_id
from shared.events.note import Note
from shared.events.record import decode, readable
from shared.events.request import BY_EXECUTION, Control, decode_control, derive_id, is_derived
from shared.runtime.stores import catalog
from shared.runtime.stores.execution_status import standing
from shared.runtime.stores.plans import Plans

log = structlog.get_logger()
MISSING_S = (1.0, 2.0, 3.0, 4.0)  # a request may come before the execution it is about: pauses before it is looked for
CHILD_S = (*MISSING_S, 8.0, 15.0, 30.0, *[60.0] * 10)  # of a child nobody waits for, which is cancelled once it begins
MAX_MISSING = 512  # of those; of any more it is said at once that their execution is not there


SUBJECTS = frozenset({subjects.CANCEL, subjects.PAUSE, subjects.RESUME, subjects.SIGNAL})


class Wishes:
    def __init__(self, bus: Bus, clock: Clock, partitions: int, notes: Notes, plans: Plans) -> None:
        self._bus, self._clock, self._partitions, self._notes, self._plans = bus, clock, partitions, notes, plans
        self._missing: dict[int, float] = {}  # requests whose execution may still come, and when they are forgotten

    async def take(self, delivery: Delivery) -> dict[str, object] | str | float:
        """The answer for the caller, or why nothing can follow; a number: the execution may still come, and is looked
        for after so many seconds. Raises Corrupt if it will never be understood."""
        asked = decode_control(delivery.data)
        event = _event(delivery, asked)
        found = await standing(self._bus, asked.execution_id, self._partitions)
        if found == "unknown":
            return self._pause(delivery, asked) or _nobody(delivery, asked)
        self._missing.pop(delivery.seq, None)
        reason = await self._in_vain(delivery, asked, found == "over")
        if reason and not await self._is_known(asked.execution_id, _source(delivery)):
            return reason
        await self._notes.tell(Note(asked.execution_id, _source(delivery), event))
        return _accepted(asked)

    async def _in_vain(self, delivery: Delivery, asked: Control, over: bool) -> str:
        """Why it would change nothing, if someone is to be told."""
        signals, waited_for = delivery.subject == subjects.SIGNAL, refusals.has_inbox(delivery)
        if over and (signals or waited_for):
            return f"execution {asked.execution_id} is over: there is nothing to {delivery.subject.rpartition('.')[2]}"
        if not signals or not waited_for or (plan := await self._plan(asked.execution_id)) is None:
            return ""
        return await asyncio.to_thread(planned_signals.refusal, plan, asked.name, asked.payload)  # schemas cost time

    async def _plan(self, execution_id: str) -> Plan | None:
        """None: it cannot be told what the execution waits for."""
        partition = subjects.partition_of(execution_id, self._partitions)
        subject = subjects.event(partition, execution_id, subjects.ROUTER)
        first = await self._bus.find(topology.events_stream(partition), subject)
        name = digest(decode(first, self._partitions)) if first is not None else ""
        try:
            return await self._plans.load(name) if name else None
        except (catalog.NotRegistered, Corrupt):
            return None

    async def _is_known(self, execution_id: str, source: str) -> bool:
        """It was accepted before, and comes again: its answer or its acknowledgement was lost."""
        partition = subjects.partition_of(execution_id, self._partitions)
        subject = subjects.event(partition, execution_id, subjects.CONTROL)
        known = await self._bus.read(topology.events_stream(partition), [subject])
        return any(record.source == source for _, record in readable(known, self._partitions))

    def _pause(self, delivery: Delivery, asked: Control) -> float:
        """0: it is looked for no more."""
        pauses = CHILD_S if _is_of_child(delivery, asked) else MISSING_S
        now, tries = self._clock.now(), delivery.epoch[1]
        self._missing.pop(delivery.seq, None)
        while self._missing and next(iter(self._missing.values())) < now:
            del self._missing[next(iter(self._missing))]  # another router was given it
        if tries > len(pauses) or len(self._missing) >= MAX_MISSING:
            return 0.0
        self._missing[delivery.seq] = now + 2 * max(MISSING_S[-1], pauses[tries - 1])
        return pauses[tries - 1]


def _is_of_child(delivery: Delivery, asked: Control) -> bool:
    """A scheduler cancels a child whose start may still be on its way, or never was."""
    return delivery.subject == subjects.CANCEL and is_derived(asked.execution_id) and asked.by.startswith(BY_EXECUTION)


def _nobody(delivery: Delivery, asked: Control) -> dict[str, object] | str:
    if refusals.has_inbox(delivery) or not _is_of_child(delivery, asked):
        return f"there is no execution {asked.execution_id}"
    log.info("child.never_began", execution_id=asked.execution_id, by=asked.by)
    return _accepted(asked)


def _accepted(asked: Control) -> dict[str, object]:
    return {"execution_id": asked.execution_id, "status": "accepted", "error": None}


def about(delivery: Delivery) -> str:
    """The execution it is about; empty if it cannot be read."""
    try:
        return decode_control(delivery.data).execution_id
    except Corrupt:
        return ""


def _event(delivery: Delivery, asked: Control) -> ev.Event:
    match delivery.subject:
        case subjects.CANCEL:
            return ev.CancelRequested(asked.reason, asked.by, asked.grace_s)
        case subjects.PAUSE:
            return ev.PauseRequested(asked.reason, asked.by, delivery.epoch[0])
        case subjects.RESUME:
            return ev.ResumeRequested(asked.by, delivery.epoch[0])
        case subjects.SIGNAL if asked.name:
            return ev.SignalReceived(asked.name, asked.payload, asked.by)
        case _:
            raise Corrupt("a signal needs `name`")


def _source(delivery: Delivery) -> str:
    """The request's own id, or its place in the stream of requests."""
    own = request_id(delivery.headers)
    return derive_id("request", own) if own else f"request-{delivery.seq}"
