"""The playbook catalogue in KV: sources by digest, never changed; names and versions point to them."""

import hashlib
import re

import msgspec
from msgspec import Struct

from shared.bus import topology
from shared.bus.kv import encode_key, entries, stream_of
from shared.bus.ports import Bus
from shared.dsl.model.plan import Plan
from shared.errors import Conflict, NoetlError, Unavailable
from shared.events import subjects
from shared.events.decoding import read

MAX_ENTRY_BYTES = 65_536
DIGEST = re.compile("[0-9a-f]{64}")


class Entry(Struct, frozen=True):
    """What a path (and version) names."""

    path: str
    version: str
    digest: str

    @property
    def playbook_id(self) -> str:
        """What a request may name it by, as long as it is registered; the digest names the same source for ever."""
        return f"{self.path}@{self.version}"


_decoder = msgspec.json.Decoder(Entry)


class NotRegistered(NoetlError):
    """No playbook under that path, version or digest."""


def entry_of(source: bytes, plan: Plan) -> Entry:
    return Entry(plan.path, plan.version, hashlib.sha256(source).hexdigest())


async def register(bus: Bus, source: bytes, plan: Plan) -> Entry:
    """Stores the source and points its path, and path with version, to it."""
    entry = entry_of(source, plan)
    try:
        await bus.kv_put(topology.PLAYBOOKS, f"source.{entry.digest}", source, expected=0)
    except Conflict:  # the same bytes are there already; on replicas they may be on their way and not arrive
        if await bus.kv_get(topology.PLAYBOOKS, f"source.{entry.digest}") is None:
            raise Unavailable(f"{plan.path} is being registered by someone else: try again") from None
    data = msgspec.json.encode(entry)
    await bus.kv_put(topology.PLAYBOOKS, _key(plan.path, plan.version), data)
    await bus.kv_put(topology.PLAYBOOKS, _key(plan.path, ""), data)
    return entry


async def find(bus: Bus, path: str, version: str = "") -> Entry:
    found = await bus.kv_get(topology.PLAYBOOKS, _key(path, version))
    if found is None:
        which = f"{path!r}" + (f" version {version!r}" if version else "")
        raise NotRegistered(f"no playbook {which} is registered (noetlctl register FILE)")
    return _decoded(found.value)


async def find_id(bus: Bus, playbook_id: str) -> str:
    """The digest of the playbook that an id names: itself, or that of `path@version`."""
    if DIGEST.fullmatch(playbook_id):
        return playbook_id
    path, at, version = playbook_id.rpartition("@")
    if not at:
        raise NotRegistered(f"{playbook_id!r} is no id of a playbook: write its digest, or path@version")
    return (await find(bus, path, version)).digest


async def everything(bus: Bus) -> list[tuple[Entry, bool]]:
    """Every version of every path, and whether it is the latest registered."""
    messages = await bus.read(stream_of(topology.PLAYBOOKS), [subjects.key(topology.PLAYBOOKS, "path.>")])
    found = entries(topology.PLAYBOOKS, messages)
    known = {key: _decoded(data) for key, data in found.items()}
    latest = {entry.path: entry for key, entry in known.items() if key == _key(entry.path, "")}
    versions = {(entry.path, entry.version): entry for key, entry in known.items() if key != _key(entry.path, "")}
    return [(entry, latest.get(entry.path) == entry) for _, entry in sorted(versions.items())]


async def source(bus: Bus, digest: str) -> bytes:
    key = f"source.{digest}"  # never changed: any copy of it is right
    found = await bus.kv_get(topology.PLAYBOOKS, key, any_copy=True) or await bus.kv_get(topology.PLAYBOOKS, key)
    if found is None:
        raise NotRegistered(f"there is no playbook source with digest {digest[:12]}… in the catalogue")
    return found.value


def _decoded(data: bytes) -> Entry:
    return read(_decoder, data, "an entry of the catalogue", MAX_ENTRY_BYTES)


def _key(path: str, version: str) -> str:
    return f"path.{encode_key(path)}.{encode_key(version)}"
