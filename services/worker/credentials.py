"""Credentials from the keychain bucket, for tool calls only: they reach no event, log or template
outside a tool's own keys."""

from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus
from shared.errors import NoetlError


class NoCredential(NoetlError):
    """The keychain has no such name."""


async def find(bus: Bus, name: str) -> dict[str, Any]:
    entry = await bus.kv_get(topology.KEYCHAIN, name)
    if entry is None:
        raise NoCredential(f"no credential {name!r} in the keychain (noetlctl credential {name}=JSON)")
    value: dict[str, Any] = msgspec.json.decode(entry.value)
    return value


async def resolve(bus: Bus, auth: Any) -> dict[str, Any] | None:
    """`auth` of a task: a credential's name, or the credential itself."""
    if auth is None or auth == {}:
        return None
    if isinstance(auth, str):
        return await find(bus, auth)
    if isinstance(auth, dict):
        return auth
    raise NoCredential(f"auth must name a credential, not {type(auth).__name__}")
