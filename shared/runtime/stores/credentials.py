"""The keychain: what `auth: NAME` of a task resolves to, by name."""

import re
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus
from shared.errors import NoetlError

NAME = re.compile(r"(?=.{1,128}\Z)[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")  # also a path, as secret managers name secrets


class BadName(NoetlError):
    """No credential can have this name."""


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadName(f"credential name {name!r} may hold letters, digits, _ and -, and / between them; at most 128")


async def store(bus: Bus, name: str, value: dict[str, Any]) -> None:
    """One that is stored already is replaced."""
    check_name(name)
    await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(value))
