"""Dead letters: what each is about, and what it takes to try it again."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from services.cli import exits
from services.cli.exits import CliError
from shared.bus.letters import Letter
from shared.bus.ports import Bus
from shared.dsl.schedules import Schedule
from shared.dsl.triggers import Trigger
from shared.engine import firing
from shared.engine.reacting import Arrived, Broken, react
from shared.errors import Corrupt, TemplateError
from shared.events import record, request, subjects
from shared.runtime import timetable

AUTOMATIC = {"triggers": "Trigger", "schedules": "Schedule"}
REQUESTS = (subjects.EXECUTE, subjects.CANCEL, subjects.PAUSE, subjects.RESUME, subjects.SIGNAL, subjects.RERUN)


def row(letter: Letter) -> dict[str, Any]:
    """What a list shows of it."""
    note = _note(letter)
    about = note.get("trigger") or note.get("schedule") or note.get("subject") or letter.headers.get("Noetl-Place", "")
    return {
        "seq": letter.seq, "time": datetime.fromtimestamp(letter.at / 1e9, UTC).isoformat(timespec="milliseconds"),
        "origin": letter.origin, "about": about, "reason": note.get("reason") or _why(letter),
        "bytes": len(letter.data),
    }


def whole(letter: Letter) -> dict[str, Any]:
    note = _note(letter)
    body = note.get("request", note.get("message")) if note else letter.data.decode(errors="replace")
    return {**row(letter), "note": note, "body": body}


def _note(letter: Letter) -> dict[str, Any]:
    """What the service wrote about it; a record is kept as it was, and has none."""
    if letter.origin not in ("requests", *AUTOMATIC):
        return {}
    try:
        found = msgspec.json.decode(letter.data)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _why(letter: Letter) -> str:
    try:
        record.decode(letter.data)
    except Corrupt as error:
        return str(error)
    return "readable now: this build takes it"


Again = tuple[str, request.Request | request.Control]


async def again(bus: Bus, letter: Letter, body: str | None) -> Again:
    """The subject and the request to publish there; CliError says why it cannot be."""
    note = _note(letter)
    if letter.origin == "requests":
        subject = str(note.get("subject") or subjects.EXECUTE)  # letters of earlier versions do not say it
        text = str(note.get("request", "")) if body is None else body
        return subject, _request(subject, text, str(note.get("id", "")))
    if letter.origin not in AUTOMATIC:
        place = letter.headers.get("Noetl-Place", "")
        raise CliError(
            "a record cannot be replayed: it is in the log" + (f" at {place}" if place else "") + ", whose order is "
            "fixed, and what its writer decided since does not rest on it", exits.CONFLICT,
        )
    if letter.origin == "schedules" and body is not None:
        raise CliError("a time of a schedule has no body: change the schedule", exits.USAGE)
    document = await _document(bus, letter.origin, note)
    made = _fired(document, note) if isinstance(document, Schedule) else _reacted(document, note, letter, body)
    return subjects.EXECUTE, made


def _request(subject: str, text: str, key: str) -> request.Request | request.Control:
    """What had a key keeps the id that follows from it: the same request again is still the same execution."""
    if subject not in REQUESTS:
        raise CliError(f"it was published to {subject!r}, which no router takes: drop it", exits.CONFLICT)
    try:
        if subject != subjects.EXECUTE:
            return request.decode_control(text.encode())
        asked = request.decode(text.encode())
        own = asked.execution_id or (request.derive_id("id", key) if key else "")
        return msgspec.structs.replace(asked, execution_id=own)
    except Corrupt as error:
        raise CliError(f"it would be buried again: {error} (mend it with --body @FILE)", exits.INVALID) from None


async def _document(bus: Bus, origin: str, note: dict[str, Any]) -> Schedule | Trigger:
    kind: timetable.Kind = "Trigger" if origin == "triggers" else "Schedule"
    try:
        entry, _ = await timetable.find(bus, kind, str(note.get(kind.lower(), "")))
    except timetable.NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None
    return timetable.parse(entry, kind)


def _fired(schedule: Schedule, note: dict[str, Any]) -> request.Request:
    try:
        return firing.request(schedule, int(note["at"]))
    except TemplateError as error:
        raise CliError(f"it would fail again: {error} (change the schedule first)", exits.INVALID) from None


def _reacted(trigger: Trigger, note: dict[str, Any], letter: Letter, body: str | None) -> request.Request:
    """By the trigger as it is now. The message's own name is not known any more: the letter's is its."""
    data = (str(note.get("message", "")) if body is None else body).encode()
    made = react(trigger, Arrived(str(note.get("subject", "")), data, {}, ("letter", letter.seq)))
    if made is None:
        raise CliError("the trigger's filter does not take the message", exits.CONFLICT)
    if isinstance(made, Broken):
        raise CliError(f"it would be buried again: {made.reason} (change the trigger, or --body @FILE)", exits.INVALID)
    return made
