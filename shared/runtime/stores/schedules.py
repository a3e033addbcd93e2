"""Schedules and triggers in KV: the documents people apply, and where each of them stands.

`schedule.<name>` and `trigger.<name>` hold an Entry, `schedule_state.<name>` and `trigger_state.<name>`
what the scheduler keeps. A lost state fires nothing twice: execution ids are derived."""

from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.kv import key_of
from shared.bus.ports import Bus
from shared.dsl.documents import compile_document
from shared.dsl.schedules import Schedule, timing
from shared.dsl.triggers import Trigger
from shared.errors import Conflict, Corrupt, NoetlError, Refused

Kind = Literal["Schedule", "Trigger"]
MAX_DOCUMENTS = 5000  # of each kind: a scheduler looks at all of its own every second
TRIES = 10
S = TypeVar("S")


class Entry(Struct, frozen=True):
    """`since`: times up to it were never promised; set when the document or a pause changes them."""

    source: str
    since: int
    paused: bool = False


class Holders(Struct, frozen=True, omit_defaults=True):
    """Who has the places of a trigger: execution id → since when."""

    running: dict[str, float] = {}


class NotThere(NoetlError):
    """No such schedule or trigger."""


def key(kind: Kind, name: str) -> str:
    return f"{kind.lower()}.{name}"


def state_key(kind: Kind, name: str) -> str:
    return f"{kind.lower()}_state.{name}"


def subject(kind: Kind) -> str:
    return f"$KV.{topology.SCHEDULES}.{kind.lower()}.*"


def name_of(subject: str) -> tuple[Kind, str]:
    kind, _, name = key_of(topology.SCHEDULES, subject).partition(".")
    return "Schedule" if kind == "schedule" else "Trigger", name


def parse(entry: Entry, kind: Kind) -> Schedule | Trigger:
    """Corrupt when the stored source is not a document (any more)."""
    compiled = compile_document(entry.source, kind=kind)
    if compiled.document is None:
        raise Corrupt(f"the stored {kind.lower()} is not valid: {compiled.diagnostics[0]}")
    return compiled.document


def decode(data: bytes) -> Entry:
    return _decoded(data, Entry)


async def find(bus: Bus, kind: Kind, name: str) -> tuple[Entry, int]:
    found = await bus.kv_get(topology.SCHEDULES, key(kind, name))
    if found is None:
        raise NotThere(f"no {kind.lower()} {name!r} (`noetlctl {kind.lower()} list` shows what is there)")
    return _decoded(found.value, Entry), found.revision


async def everything(bus: Bus, kind: Kind) -> dict[str, Entry]:
    prefix = key(kind, "")
    found = {k: v for k, v in (await bus.kv_all(topology.SCHEDULES)).items() if k.startswith(prefix)}
    return {k.removeprefix(prefix): _decoded(v, Entry) for k, v in sorted(found.items())}


async def apply(
    bus: Bus, document: Schedule | Trigger, source: str, now: int
) -> Literal["created", "changed", "unchanged"]:
    """A new timing, or the end of a pause, begins now: what lies before is not made up."""
    kind: Kind = "Schedule" if isinstance(document, Schedule) else "Trigger"
    for _ in range(TRIES):
        try:
            old, revision = await find(bus, kind, document.name)
        except NotThere:
            if len(await everything(bus, kind)) >= MAX_DOCUMENTS:
                raise Refused(f"there are {MAX_DOCUMENTS} {kind.lower()}s, and that is the limit") from None
            paused = isinstance(document, Schedule) and document.paused is True
            if await _put(bus, kind, document.name, Entry(source, now, paused), 0):
                return "created"
            continue
        entry = _changed(old, document, source, now)
        if entry == old:
            return "unchanged"
        if await _put(bus, kind, document.name, entry, revision):
            return "changed"
    raise Conflict(f"{document.name} is being changed by someone else")


async def would(
    bus: Bus, document: Schedule | Trigger, source: str, now: int
) -> Literal["created", "changed", "unchanged"]:
    """What `apply` would say; nothing is written."""
    try:
        old, _ = await find(bus, "Schedule" if isinstance(document, Schedule) else "Trigger", document.name)
    except NotThere:
        return "created"
    return "unchanged" if _changed(old, document, source, now) == old else "changed"


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
    for _ in range(TRIES):
        old, revision = await find(bus, "Schedule", name)
        if old.paused == paused:
            return False
        if await _put(bus, "Schedule", name, Entry(old.source, old.since if paused else now, paused), revision):
            return True
    raise Conflict(f"{name} is being changed by someone else")


async def delete(bus: Bus, kind: Kind, name: str) -> Entry:
    entry, _ = await find(bus, kind, name)
    await bus.kv_delete(topology.SCHEDULES, key(kind, name))
    await bus.kv_delete(topology.SCHEDULES, state_key(kind, name))
    return entry


async def read_state(bus: Bus, kind: Kind, name: str, type_: type[S]) -> tuple[S, int]:
    """The state and its revision; a new one with revision 0 when there is none."""
    found = await bus.kv_get(topology.SCHEDULES, state_key(kind, name))
    if found is None:
        return type_(), 0
    return _decoded(found.value, type_), found.revision


async def write_state(bus: Bus, kind: Kind, name: str, state: object, revision: int) -> int:
    """Conflict when someone else wrote since."""
    return await bus.kv_put(topology.SCHEDULES, state_key(kind, name), msgspec.json.encode(state), expected=revision)


def _decoded(data: bytes, type_: type[S]) -> S:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{type_.__name__} in {topology.SCHEDULES} cannot be read: {error}") from None


async def _put(bus: Bus, kind: Kind, name: str, entry: Entry, revision: int) -> bool:
    try:
        await bus.kv_put(topology.SCHEDULES, key(kind, name), msgspec.json.encode(entry), expected=revision)
    except Conflict:
        return False
    return True
