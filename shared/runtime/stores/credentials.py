"""The keychain: what `auth: NAME` of a task resolves to, by name."""

import re
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus
from shared.errors import NoetlError
from shared.events.decoding import read

MAX_CREDENTIAL_BYTES = 1_048_576
_decoder = msgspec.json.Decoder(dict[str, Any])
NAME = re.compile(r"(?=.{1,128}\Z)[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")  # also a path, as secret managers name secrets


class BadName(NoetlError):
    """No credential can have this name."""


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadName(f"credential name {name!r} may hold letters, digits, _ and -, and / between them; at most 128")


class NotStored(NoetlError):
    """The keychain has no such name."""


async def store(bus: Bus, name: str, value: dict[str, Any]) -> bool:
    """One that is stored already is replaced; whether there was one."""
    check_name(name)
    known = await bus.kv_get(topology.KEYCHAIN, name) is not None
    await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(value))
    return known


async def rotate(bus: Bus, name: str, value: dict[str, Any], *, keep: bool = False) -> list[str]:
    """Replaces one that is there, and gives the fields that differ. With `keep`, fields that are not given stay.
    Conflict when someone else stored it meanwhile."""
    check_name(name)
    found = await bus.kv_get(topology.KEYCHAIN, name)
    if found is None:
        raise _not_stored(name)
    old = read(_decoder, found.value, "a credential", MAX_CREDENTIAL_BYTES)
    new = {**old, **value} if keep else value
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key) or (key in old) != (key in new)]
    if changed:
        await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(new), expected=found.revision)
    return changed


async def delete(bus: Bus, name: str) -> None:
    """Its name goes too: an execution that declares it is refused before its first step."""
    check_name(name)
    if await bus.kv_get(topology.KEYCHAIN, name) is None:
        raise _not_stored(name)
    await bus.kv_purge(topology.KEYCHAIN, name)


def _not_stored(name: str) -> NotStored:
    return NotStored(f"no credential {name!r} (`noetlctl get credentials` lists them)")
