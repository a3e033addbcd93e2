"""How long things are kept in this stack: one document that people change, and the setting of the services where there
is none."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from shared.bus import topology
from shared.bus.codes import NotFound
from shared.bus.kv import stream_of
from shared.bus.ports import Bus, Entry
from shared.errors import Conflict, Corrupt, Unavailable
from shared.events.decoding import read
from shared.runtime.service.retention import LEAST, BadRetention, Retention, checked, parsed

KEY = "retention"
TRIES = 10
MAX_DOCUMENT_BYTES = 10_000


class Document(Struct, frozen=True):
    """`at`: since when it holds, by the broker's clock."""

    kept: Retention
    at: float
    by: str = ""


class Policy(Struct, frozen=True):
    """`revision` 0: there is no document, and the setting holds; since when, nobody knows."""

    kept: Retention
    at: float = 0.0
    by: str = ""
    revision: int = 0


async def policy(bus: Bus, setting: Iterable[str]) -> Policy:
    """What holds now. A broker that this version has not been bootstrapped on has no document."""
    found = await _found(bus)
    if found is None:
        return Policy(parsed(setting))
    document = _decoded(found.value)
    return Policy(document.kept, document.at, document.by, found.revision)


async def _found(bus: Bus) -> Entry | None:
    """Silence is not an answer: only a broker that says so has no such bucket."""
    try:
        return await bus.kv_get(topology.SETTINGS, KEY)
    except Unavailable:
        try:
            await bus.created(stream_of(topology.SETTINGS))
        except NotFound:
            return None
        raise


def _decoded(data: bytes) -> Document:
    document = read(msgspec.json.Decoder(Document), data, f"{KEY} in {topology.SETTINGS}", MAX_DOCUMENT_BYTES)
    try:
        checked(document.kept)
    except BadRetention as error:
        raise Corrupt(f"{KEY} in {topology.SETTINGS}: {error}") from None
    return document


async def change(bus: Bus, parts: Iterable[str], setting: Iterable[str], by: str) -> Policy:
    """What is named is set, the rest stays; compared and set, and tried again when somebody else was first."""
    wanted = list(parts)
    for _ in range(TRIES):
        now = await policy(bus, setting)
        kept = parsed(wanted, now.kept)
        if now.revision and kept == now.kept:
            return now
        document = Document(kept, await bus.time(), by)
        with suppress(Conflict):
            revision = await bus.kv_put(topology.SETTINGS, KEY, msgspec.json.encode(document), expected=now.revision)
            return Policy(kept, document.at, by, revision)
    raise Conflict("the retention is being changed by someone else all the time")


def described(now: Policy) -> Mapping[str, float | None]:
    """Seconds of each; None is for ever."""
    return {name: getattr(now.kept, name) or None for name in LEAST}


async def ages(bus: Bus, setting: Iterable[str]) -> dict[str, float]:
    """Of streams, by name; nothing where nobody has said anything."""
    given = list(setting)
    now = await policy(bus, given)
    return now.kept.ages() if now.revision or given else {}
