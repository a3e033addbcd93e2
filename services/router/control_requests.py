"""What people want of existing executions: each request becomes a fact in the execution's log, and the log's owner
decides. The same request twice is the same fact."""

import structlog

from services.router.notes import Notes
from shared.bus.ports import Bus, Clock, Delivery
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events import subjects
from shared.events.headers import request_id
from shared.events.note import Note
from shared.events.request import Control, decode_control, derive_id
from shared.runtime.stores.execution_status import standing

log = structlog.get_logger()
MISSING_S = (1.0, 2.0, 3.0, 4.0)  # a request may come before the execution it is about: pauses before it is looked for
MAX_MISSING = 512  # of those; of any more it is said at once that their execution is not there


SUBJECTS = frozenset({subjects.CANCEL, subjects.PAUSE, subjects.RESUME, subjects.SIGNAL})


class Wishes:
    def __init__(self, bus: Bus, clock: Clock, partitions: int, notes: Notes) -> None:
        self._bus, self._clock, self._partitions, self._notes = bus, clock, partitions, notes
        self._missing: dict[int, float] = {}  # requests whose execution may still come, and when they are forgotten

    async def take(self, delivery: Delivery) -> dict[str, object] | str | float:
        """The answer for the caller, or why nothing can follow; a number: the execution may still come, and is looked
        for after so many seconds. Raises Corrupt if it will never be understood."""
        asked = decode_control(delivery.data)
        event = _event(delivery, asked)
        if await standing(self._bus, asked.execution_id, self._partitions) == "unknown":
            return self._pause(delivery) or f"there is no execution {asked.execution_id}"
        self._missing.pop(delivery.seq, None)
        await self._notes.tell(Note(asked.execution_id, _source(delivery), event))
        return {"execution_id": asked.execution_id, "status": "accepted", "error": None}

    def _pause(self, delivery: Delivery) -> float:
        """0: it is looked for no more."""
        now, tries = self._clock.now(), delivery.epoch[1]
        self._missing.pop(delivery.seq, None)
        while self._missing and next(iter(self._missing.values())) < now:
            del self._missing[next(iter(self._missing))]  # another router was given it
        if tries > len(MISSING_S) or len(self._missing) >= MAX_MISSING:
            return 0.0
        self._missing[delivery.seq] = now + 2 * max(MISSING_S)
        return MISSING_S[tries - 1]


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
