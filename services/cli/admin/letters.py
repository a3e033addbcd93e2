"""Dead letters: what each is about, and what it takes to try it again."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus import dead_letters
from shared.bus.dead_letters import Letter
from shared.bus.ports import Bus, Message
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation.triggers import Arrived, Broken, react
from shared.errors import Corrupt, TemplateError
from shared.events import request, subjects
from shared.events.headers import request_id
from shared.events.letter import Note, read, write
from shared.runtime.stores import schedules as store_schedules
from shared.runtime.stores.documents import NotThere

AUTOMATIC = {"triggers": "Trigger", "schedules": "Schedule"}
REQUESTS = (
    subjects.EXECUTE, subjects.DERIVED, subjects.CANCEL, subjects.PAUSE, subjects.RESUME, subjects.SIGNAL,
    subjects.RERUN,
)


def row(letter: Letter) -> dict[str, Any]:
    """What a list shows of it."""
    note = _note(letter)
    return {
        "seq": letter.seq, "time": datetime.fromtimestamp(letter.at / 1e9, UTC).isoformat(timespec="milliseconds"),
        "origin": letter.origin, "about": note.name or note.subject, "place": note.place, "reason": note.reason,
        "bytes": note.size,
    }


def whole(letter: Letter) -> dict[str, Any]:
    """`whole`: the body is the message as it was, and not only how it begins."""
    note = _note(letter)
    kept = {"digest": note.digest, "headers": note.headers, "whole": note.whole, "body": note.excerpt}
    return {**row(letter), "at": note.at or None, **kept}


def _note(letter: Letter) -> Note:
    """A message in the stream that no service wrote is shown as it is."""
    return letter.note or read(write("", "not a letter of this version", letter.data)) or Note()


Again = tuple[str, request.Request | request.Control]


async def again(bus: Bus, letter: Letter, body: str | None) -> Again:
    """The subject and the request to publish there; CliError says why it cannot be."""
    note = _note(letter)
    if letter.origin == "requests":
        message = await _message(bus, note, body)
        asked = _request(note.subject, message.data, request_id(message.headers))
        has_derived = isinstance(asked, request.Request) and request.is_derived(asked.execution_id)
        return subjects.DERIVED if has_derived else note.subject, asked
    if letter.origin not in AUTOMATIC:
        raise CliError(
            "a record cannot be replayed: it is in the log" + (f" at {note.place}" if note.place else "") + ", whose "
            "order is fixed, and what its writer decided since does not rest on it", exits.CONFLICT,
        )
    if letter.origin == "schedules" and body is not None:
        raise CliError("a time of a schedule has no body: change the schedule", exits.USAGE)
    document = await _document(bus, letter.origin, note)
    if isinstance(document, Schedule):
        return subjects.DERIVED, _fired(document, note)
    return subjects.DERIVED, _reacted(document, await _message(bus, note, body), letter)


async def _message(bus: Bus, note: Note, body: str | None) -> Message:
    """As it is in its stream; if it is gone from there, the letter's copy, if that is complete."""
    found = await dead_letters.original(bus, note)
    if body is not None:
        return Message(note.subject, body.encode(), 0, found.headers if found is not None else note.headers)
    if found is None and note.whole:
        return Message(note.subject, note.excerpt.encode(), 0, note.headers)
    if found is None:
        raise CliError(
            f"only the first bytes of its {note.size} are kept, and it does not stand at {note.place} any more: "
            "give it with --body @FILE", exits.CONFLICT)
    return found


def _request(subject: str, data: bytes, key: str) -> request.Request | request.Control:
    """What had a key keeps the id that follows from it: the same request again is still the same execution."""
    if subject not in REQUESTS:
        raise CliError(f"it was published to {subject!r}, which no router takes: drop it", exits.CONFLICT)
    try:
        if subject == subjects.DERIVED:
            return request.decode_derived(data)
        if subject != subjects.EXECUTE:
            return request.decode_control(data)
        asked = request.decode(data)
        own = asked.execution_id or (request.derive_id("id", key) if key else "")
        return msgspec.structs.replace(asked, execution_id=own)
    except Corrupt as error:
        raise CliError(f"it would be buried again: {error} (mend it with --body @FILE)", exits.INVALID) from None


async def _document(bus: Bus, origin: str, note: Note) -> Schedule | Trigger:
    kind: store_schedules.Kind = "Trigger" if origin == "triggers" else "Schedule"
    try:
        entry, _ = await store_schedules.find(bus, kind, note.name)
    except NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None
    return store_schedules.parse(entry, kind)


def _fired(schedule: Schedule, note: Note) -> request.Request:
    try:
        return automation_schedules.request(schedule, note.at)
    except TemplateError as error:
        raise CliError(f"it would fail again: {error} (change the schedule first)", exits.INVALID) from None


def _reacted(trigger: Trigger, message: Message, letter: Letter) -> request.Request:
    """By the trigger as it is now. The message's own id is no longer known: it gets the letter's."""
    made = react(trigger, Arrived(message.subject, message.data, message.headers or {}, ("letter", letter.seq)))
    if made is None:
        raise CliError("the trigger's filter does not take the message", exits.CONFLICT)
    if isinstance(made, Broken):
        raise CliError(f"it would be buried again: {made.reason} (change the trigger, or --body @FILE)", exits.INVALID)
    return made
