"""Credentials from the keychain bucket, for tool calls only: they reach no event, log or template
outside a tool's own keys."""

from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.read.auth import ALIAS_KEYS
from shared.errors import Corrupt, NoetlError, Refused
from shared.events.bounds import MAX_CREDENTIAL_NAME
from shared.events.decoding import read
from shared.runtime.stores.credentials import MAX_CREDENTIAL_BYTES

_decoder = msgspec.json.Decoder(dict[str, Any])


class NoCredential(NoetlError):
    """The keychain has no such name."""


async def find(bus: Bus, name: str) -> dict[str, Any]:
    try:
        entry = await bus.kv_get(topology.KEYCHAIN, name) if len(name) <= MAX_CREDENTIAL_NAME else None
    except Refused:
        raise NoCredential(f"a credential cannot be called {name[:60]!r}") from None
    if entry is None:
        name = name[:60]
        raise NoCredential(f"no credential {name!r} in the keychain (noetlctl credential {name}=JSON)")
    try:
        return read(_decoder, entry.value, "a credential", MAX_CREDENTIAL_BYTES)
    except Corrupt as error:
        raise NoCredential(f"credential {name!r}: {error}") from None


async def resolve(bus: Bus, auth: Any) -> dict[str, Any] | None:
    """`auth` of a task: a credential's name, the credential itself, or several by alias."""
    if auth is None or auth == {}:
        return None
    if isinstance(auth, str):
        return await find(bus, auth)
    if not isinstance(auth, dict):
        raise NoCredential(f"auth must name a credential, not {type(auth).__name__}")
    if all(_is_reference(each) for each in auth.values()):
        return {alias: await _referred(bus, each) for alias, each in auth.items()}
    return auth


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and "credential" in value and set(value) <= set(ALIAS_KEYS)


async def _referred(bus: Bus, reference: dict[str, Any]) -> dict[str, Any]:
    """The credential, with the type and the scope this task gives it."""
    found = await resolve(bus, reference["credential"]) or {}
    return found | {key: value for key, value in reference.items() if key != "credential" and value is not None}
