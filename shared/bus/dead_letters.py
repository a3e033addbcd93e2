"""The stream of dead letters. `bury` is the only way into it: a letter is small whatever the message holds, and there
is one for each place. Of one origin and owner (a pool, a trigger, a schedule) the latest LETTERS_OF_ONE are kept, so
that nobody pushes out letters that others cause. For people: the latest ones with their times, one by its sequence, its
message, and its end."""

import base64
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import structlog
from msgspec import Struct

from shared.bus import api, stored_messages, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Bus, Message, append_once
from shared.bus.wire import nanoseconds, parse_headers
from shared.errors import NoetlError
from shared.events import letter, subjects
from shared.events.bounds import POOL

log = structlog.get_logger()
LEFT_OUT = "left_out"  # the origin of letters about letters that were not written
_MOST_DROPPED = 20  # by one burial
_written: ContextVar["Written | None"] = ContextVar("dead_letters_written", default=None)
_PLACE = re.compile(r"([^/]+)/([0-9]{1,19})")


class Letter(Struct, frozen=True):
    """`at` in ns since the epoch, by the broker."""

    seq: int
    at: int
    subject: str
    data: bytes
    headers: dict[str, str]

    @property
    def origin(self) -> str:
        return subjects.origin_of(self.subject)

    @property
    def note(self) -> letter.Note | None:
        """None: it was not written by `bury`."""
        return letter.read(self.data)


class Written:
    """How many letters were written since."""

    def __init__(self) -> None:
        self.count = 0


def counted() -> Written:
    """Counts the letters that this task, and whatever it starts, writes from here on."""
    count = Written()
    _written.set(count)
    return count


async def bury(
    bus: Bus, origin: str, place: str, reason: str, data: bytes = b"", *, subject: str = "",
    headers: Mapping[str, str] | None = None, name: str = "", at: int = 0, owner: str = "",
) -> bool:
    """Raises only Unavailable: what the message holds does not matter. `place` is where it is (`at_seq`), or names
    it; false: there is a letter of this place, and of the trigger or schedule `name`, already. `owner`: whose letters
    make room for it, if there are too many."""
    note = letter.write(place, reason, data, subject=subject, headers=headers, name=name, at=at)
    identity = letter.digest(f"{place}\0{name}".encode(errors="replace"))
    token = owner if POOL.fullmatch(owner) or not owner else letter.digest(owner.encode(errors="replace"))
    if not await append_once(bus, topology.DEAD, subjects.dead(origin, identity, token), note):
        return False
    if (written := _written.get()) is not None:
        written.count += 1
    try:
        await _make_room(bus, subjects.dead(origin, "*", token))
    except NoetlError as error:  # the letter is there, and the next one tries again
        log.warning("letters.crowded", origin=origin, owner=owner, error=str(error))
    return True


async def _make_room(bus: Bus, wanted: str) -> None:
    """The oldest of these go. A replica that is behind shows fewer: then the next letter makes room."""
    for _ in range(_MOST_DROPPED):
        oldest, count = await _oldest(bus, wanted)
        if count <= topology.LETTERS_OF_ONE:
            return
        await bus.delete(topology.DEAD, oldest)


async def _oldest(bus: Bus, wanted: str) -> tuple[int, int]:
    """Its sequence, and how many there are."""
    if isinstance(bus, JetStreamBus):
        found = await stored_messages.first(bus, topology.DEAD, wanted)
        return (found.seq, found.more + 1) if found is not None else (0, 0)
    kept = await bus.read(topology.DEAD, [wanted])
    return (kept[0].seq, len(kept)) if kept else (0, 0)


def at_seq(stream: str, seq: int) -> str:
    return f"{stream}/{seq}"


async def original(bus: Bus, note: letter.Note) -> Message | None:
    """The whole message, if it is still where the letter says."""
    place = _PLACE.fullmatch(note.place)
    if place is None:
        return None
    stream, seq = place[1], int(place[2])
    found = await (_stored(bus, stream, seq) if isinstance(bus, MemoryBus) else _fetched(bus, stream, seq))
    return found if found is not None and letter.digest(found.data) == note.digest else None


async def latest(bus: Bus, most: int, origin: str = "") -> list[Letter]:
    """The last ones, oldest first; of one origin, the last of it."""
    wanted = subjects.dead(origin, ">") if origin else f"{subjects.DEAD}.>"
    if isinstance(bus, MemoryBus):
        stream = bus.broker.stream(topology.DEAD)
        return [_of_memory(bus, message.seq) for message in stream.read((wanted,), 0)][-most:]
    state = (await _jetstream(bus).requests.api(api.stream_info(topology.DEAD)))["state"]
    first, end, step = state["first_seq"], state["last_seq"], most
    found: list[Letter] = []
    while end >= first and len(found) < most:  # backwards, in growing pieces: deleted ones leave gaps
        start = max(first, end - step + 1)
        found = await _between(bus, wanted, start, end) + found
        end, step = start - 1, step * 2
    return found[-most:]


async def one(bus: Bus, seq: int) -> Letter | None:
    if isinstance(bus, MemoryBus):
        return _of_memory(bus, seq) if seq in bus.broker.stream(topology.DEAD).stored else None
    return await _get(bus, {"seq": seq})


async def drop(bus: Bus, seq: int) -> None:
    if isinstance(bus, MemoryBus):
        bus.broker.stream(topology.DEAD).remove(seq)
        return
    await _jetstream(bus).requests.api(api.message_delete(topology.DEAD), {"seq": seq})


async def _between(bus: Bus, wanted: str, start: int, end: int) -> list[Letter]:
    found: list[Letter] = []
    while start <= end:
        letter = await _get(bus, {"seq": start, "next_by_subj": wanted})
        if letter is None or letter.seq > end:
            break
        found.append(letter)
        start = letter.seq + 1
    return found


async def _get(bus: Bus, body: dict[str, Any]) -> Letter | None:
    try:
        found = (await _jetstream(bus).requests.api(api.message_get(topology.DEAD), body))["message"]
    except NotFound:
        return None
    headers = parse_headers(base64.b64decode(found["hdrs"])) if found.get("hdrs") else None
    data = base64.b64decode(found.get("data") or "")
    return Letter(found["seq"], nanoseconds(found["time"]), found["subject"], data, headers or {})


async def _stored(bus: MemoryBus, stream: str, seq: int) -> Message | None:
    known = bus.broker.streams.get(stream)
    stored = known.stored.get(seq) if known is not None else None
    return None if stored is None else stored.message


async def _fetched(bus: Bus, stream: str, seq: int) -> Message | None:
    try:
        found = (await _jetstream(bus).requests.api(api.message_get(stream), {"seq": seq}))["message"]
    except NotFound:
        return None
    headers = parse_headers(base64.b64decode(found["hdrs"])) if found.get("hdrs") else None
    return Message(found["subject"], base64.b64decode(found.get("data") or ""), found["seq"], headers)


def _of_memory(bus: MemoryBus, seq: int) -> Letter:
    stored = bus.broker.stream(topology.DEAD).stored[seq]
    return Letter(seq, stored.timestamp, stored.message.subject, stored.message.data, stored.message.headers or {})


def _jetstream(bus: Bus) -> JetStreamBus:
    assert isinstance(bus, JetStreamBus), f"no way to read dead letters on {type(bus).__name__}"
    return bus
