"""The playbook catalogue in KV: sources by digest, never changed; names and versions point to them."""

import hashlib
from contextlib import suppress

import msgspec
from msgspec import Struct

from shared.bus import topology
from shared.bus.kv import encode_key, entries, stream_of
from shared.bus.ports import Bus
from shared.dsl.plan import Plan
from shared.errors import Conflict, NoetlError


class Entry(Struct, frozen=True):
    """What a path (and version) names."""

    path: str
    version: str
    digest: str


class NotRegistered(NoetlError):
    """No playbook under that path, version or digest."""


def entry_of(source: bytes, plan: Plan) -> Entry:
    return Entry(plan.path, plan.version, hashlib.sha256(source).hexdigest())


async def register(bus: Bus, source: bytes, plan: Plan) -> Entry:
    """Stores the source and points its path, and path with version, to it."""
    entry = entry_of(source, plan)
    with suppress(Conflict):  # the same bytes are there already
        await bus.kv_put(topology.PLAYBOOKS, f"source.{entry.digest}", source, expected=0)
    data = msgspec.json.encode(entry)
    await bus.kv_put(topology.PLAYBOOKS, _key(plan.path, plan.version), data)
    await bus.kv_put(topology.PLAYBOOKS, _key(plan.path, ""), data)
    return entry


async def find(bus: Bus, path: str, version: str = "") -> Entry:
    found = await bus.kv_get(topology.PLAYBOOKS, _key(path, version))
    if found is None:
        which = f"{path!r}" + (f" version {version!r}" if version else "")
        raise NotRegistered(f"no playbook {which} is registered (noetlctl register FILE)")
    return msgspec.json.decode(found.value, type=Entry)


async def everything(bus: Bus) -> list[tuple[Entry, bool]]:
    """Every version of every path, and whether it is the latest registered."""
    messages = await bus.read(stream_of(topology.PLAYBOOKS), [f"$KV.{topology.PLAYBOOKS}.path.>"])
    found = entries(topology.PLAYBOOKS, messages)
    known = {key: msgspec.json.decode(data, type=Entry) for key, data in found.items()}
    latest = {entry.path: entry for key, entry in known.items() if key == _key(entry.path, "")}
    versions = {(entry.path, entry.version): entry for key, entry in known.items() if key != _key(entry.path, "")}
    return [(entry, latest.get(entry.path) == entry) for _, entry in sorted(versions.items())]


async def source(bus: Bus, digest: str) -> bytes:
    found = await bus.kv_get(topology.PLAYBOOKS, f"source.{digest}")
    if found is None:
        raise NotRegistered(f"the playbook source with digest {digest[:12]}… is gone from the catalogue")
    return found.value


def _key(path: str, version: str) -> str:
    return f"path.{encode_key(path)}.{encode_key(version)}"
