"""The stream of dead letters. `bury` is the only way into it: a letter is small whatever the message holds, and there
is one for each place. For people: the latest ones with their times, one by its sequence, its message, and its end."""

import base64
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.bus import api, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Bus, Message
from shared.bus.wire import nanoseconds, parse_headers
from shared.errors import Conflict
from shared.events import letter, subjects

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


async def bury(
    bus: Bus, origin: str, place: str, reason: str, data: bytes = b"", *, subject: str = "",
    headers: Mapping[str, str] | None = None, name: str = "", at: int = 0,
) -> bool:
    """Raises only Unavailable: what the message holds does not matter. `place` is where it is (`at_seq`), or names
    it; false: there is a letter of this place, and of the trigger or schedule `name`, already."""
    note = letter.write(place, reason, data, subject=subject, headers=headers, name=name, at=at)
    identity = letter.digest(f"{place}\0{name}".encode(errors="replace"))
    try:
        await bus.append(subjects.dead(origin, identity), note, expected=0)
    except Conflict:
        return False
    return True


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
