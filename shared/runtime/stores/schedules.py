"""Schedules and triggers in KV: the documents people apply, and how far each of them is.

`schedule.<name>` and `trigger.<name>` hold an Entry, `schedule_state.<name>` and `trigger_state.<name>`
what the scheduler keeps. A lost state fires nothing twice: execution ids are derived."""

from typing import Literal, TypeVar

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.schedules import Schedule, timing
from shared.dsl.documents.triggers import Trigger
from shared.errors import Corrupt
from shared.runtime.stores.documents import Documents, Done, NotThere

Kind = Literal["Schedule", "Trigger"]
MAX_DOCUMENTS = 5000  # of each kind: a scheduler looks at all of its own every second
S = TypeVar("S")
log = structlog.get_logger()


class Entry(Struct, frozen=True):
    """`since`: times up to it were never promised; set when the document or a pause changes them."""

    source: str
    since: int
    paused: bool = False


class Holders(Struct, frozen=True, omit_defaults=True):
    """Who has the places of a trigger: execution id → since when."""

    running: dict[str, float] = {}


SCHEDULES = Documents(topology.SCHEDULES, "schedule", Entry, most=MAX_DOCUMENTS, state="schedule_state")
TRIGGERS = Documents(topology.SCHEDULES, "trigger", Entry, most=MAX_DOCUMENTS, state="trigger_state")


def documents(kind: Kind) -> Documents[Entry]:
    return SCHEDULES if kind == "Schedule" else TRIGGERS


def subject(kind: Kind) -> str:
    return documents(kind).subject()


def name_of(subject: str) -> tuple[Kind, str]:
    """Of an entry, by where it was written."""
    name = SCHEDULES.name_of(subject)
    return ("Schedule", name) if name is not None else ("Trigger", TRIGGERS.name_of(subject) or "")


def parse(entry: Entry, kind: Kind) -> Schedule | Trigger:
    """Corrupt if the stored source is not a document, or no longer one."""
    compiled = compile_document(entry.source, kind=kind)
    if compiled.document is None:
        raise Corrupt(f"the stored {kind.lower()} is not valid: {compiled.diagnostics[0]}")
    return compiled.document


def decode(data: bytes) -> Entry:
    return SCHEDULES.decode(data)


async def find(bus: Bus, kind: Kind, name: str) -> tuple[Entry, int]:
    """Raises NotThere."""
    return await documents(kind).find(bus, name)


async def everything(bus: Bus, kind: Kind) -> dict[str, Entry]:
    return await documents(kind).everything(bus)


async def apply(bus: Bus, document: Schedule | Trigger, source: str, now: int) -> Done:
    """A new timing, or the end of a pause, begins now: what lies before is not made up."""
    new = Entry(source, now, isinstance(document, Schedule) and document.paused is True)
    done, _ = await documents(_kind(document)).change(
        bus, document.name, lambda old: _changed(old, document, source, now), new
    )
    return done


async def would(bus: Bus, document: Schedule | Trigger, source: str, now: int) -> Done:
    """What `apply` would say; nothing is written."""
    try:
        old, _ = await find(bus, _kind(document), document.name)
    except NotThere:
        return "created"
    return "unchanged" if _changed(old, document, source, now) == old else "changed"


def _kind(document: Schedule | Trigger) -> Kind:
    return "Schedule" if isinstance(document, Schedule) else "Trigger"


def _changed(old: Entry, document: Schedule | Trigger, source: str, now: int) -> Entry:
    if isinstance(document, Trigger):
        return replace(old, source=source)
    paused = old.paused if document.paused is None else document.paused
    before = compile_document(old.source, kind="Schedule").document
    same = isinstance(before, Schedule) and timing(before) == timing(document)
    since = old.since if same and not (old.paused and not paused) else now
    return Entry(source, since, paused)


async def pause(bus: Bus, name: str, paused: bool, now: int) -> bool:
    """False when it was so already. Times of a pause are not made up."""
    def changed(old: Entry) -> Entry:
        return old if old.paused == paused else Entry(old.source, old.since if paused else now, paused)

    done, _ = await SCHEDULES.change(bus, name, changed)
    return done == "changed"


async def delete(bus: Bus, kind: Kind, name: str) -> Entry:
    entry, _ = await find(bus, kind, name)
    await documents(kind).delete(bus, name)
    return entry


async def read_state(bus: Bus, kind: Kind, name: str, type_: type[S]) -> tuple[S, int]:
    """The state and its revision; a new one with revision 0 when there is none. One that cannot be read is lost."""
    store = documents(kind)
    found = await bus.kv_get(topology.SCHEDULES, store.state_key(name))
    if found is None:
        return type_(), 0
    try:
        return store.decode_as(type_, found.value), found.revision
    except Corrupt as error:
        log.error("schedule.state_lost", kind=kind, name=name, error=str(error))
        return type_(), found.revision


async def write_state(bus: Bus, kind: Kind, name: str, state: object, revision: int) -> int:
    """Conflict when someone else wrote since."""
    key = documents(kind).state_key(name)
    return await bus.kv_put(topology.SCHEDULES, key, msgspec.json.encode(state), expected=revision)
