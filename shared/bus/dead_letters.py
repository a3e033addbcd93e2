"""The stream of dead letters for people: the latest ones with their times, one by its sequence, and its end."""

import base64
from typing import Any

from msgspec import Struct

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, nanoseconds
from shared.bus.memory import MemoryBus
from shared.bus.ports import Bus
from shared.bus.request import NotFound
from shared.bus.wire import parse_headers
from shared.events import subjects


class Letter(Struct, frozen=True):
    """`at` in ns since the epoch, by the broker."""

    seq: int
    at: int
    subject: str
    data: bytes
    headers: dict[str, str]

    @property
    def origin(self) -> str:
        return self.subject.removeprefix(f"{subjects.DEAD}.")


async def latest(bus: Bus, most: int, origin: str = "") -> list[Letter]:
    """The last ones, oldest first; of one origin, the last of it."""
    wanted = subjects.dead(origin or ">")
    if isinstance(bus, MemoryBus):
        stream = bus.broker.stream(topology.DEAD)
        return [_of_memory(bus, message.seq) for message in stream.read((wanted,), 0)][-most:]
    state = (await _jetstream(bus).requests.api(f"STREAM.INFO.{topology.DEAD}"))["state"]
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
    await _jetstream(bus).requests.api(f"STREAM.MSG.DELETE.{topology.DEAD}", {"seq": seq})


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
        found = (await _jetstream(bus).requests.api(f"STREAM.MSG.GET.{topology.DEAD}", body))["message"]
    except NotFound:
        return None
    headers = parse_headers(base64.b64decode(found["hdrs"])) if found.get("hdrs") else None
    data = base64.b64decode(found.get("data") or "")
    return Letter(found["seq"], nanoseconds(found["time"]), found["subject"], data, headers or {})


def _of_memory(bus: MemoryBus, seq: int) -> Letter:
    stored = bus.broker.stream(topology.DEAD).stored[seq]
    return Letter(seq, stored.timestamp, stored.message.subject, stored.message.data, stored.message.headers or {})


def _jetstream(bus: Bus) -> JetStreamBus:
    assert isinstance(bus, JetStreamBus), f"no way to read dead letters on {type(bus).__name__}"
    return bus
