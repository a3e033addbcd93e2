"""The playbook catalogue in KV: sources by digest, never changed and never removed; names and versions point to them.

1. An execution is bound to a digest in its first record. Whatever becomes of names and versions after that, its source
   is there: no register, rollback or delete touches a source.
2. `path.<path>.<version>` says which source a version is, `path.<path>.=` which one a path without a version means.
3. The history of a path is what the bucket keeps of these keys (`topology.CATALOGUE_HISTORY`): nothing is written
   beside them, so that no crash leaves a history that differs from what it is about.
4. What may be replaced is decided in `catalog_versions.py`. A version is set by compare and set, so that of two who
   register other sources under one new version one is refused.
"""

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
    by: str = ""
    deleted: bool = False  # the last word about it, which says by whom; then its key goes

    def means(self, other: "Entry | None") -> bool:
        """The same source under the same name, whoever said so."""
        return other is not None and (self.path, self.version, self.digest) == (other.path, other.version, other.digest)

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
    """Stores the source and points its path, and path with version, to it, whatever they named before."""
    entry = entry_of(source, plan)
    await store(bus, entry, source)
    await point(bus, entry)
    return entry


async def store(bus: Bus, entry: Entry, source: bytes) -> None:
    try:
        await bus.kv_put(topology.PLAYBOOKS, f"source.{entry.digest}", source, expected=0)
    except Conflict:  # the same bytes are there already; on replicas they may be on their way and not arrive
        if await bus.kv_get(topology.PLAYBOOKS, f"source.{entry.digest}") is None:
            raise Unavailable(f"{entry.path} is being registered by someone else: try again") from None


async def point(bus: Bus, entry: Entry, *, expected: int | None = None) -> None:
    """Its version, and its path without one. `expected` is the revision of the version's key; Conflict otherwise."""
    data = msgspec.json.encode(entry)
    await bus.kv_put(topology.PLAYBOOKS, key_of(entry.path, entry.version), data, expected=expected)
    await bus.kv_put(topology.PLAYBOOKS, key_of(entry.path, ""), data)


async def find(bus: Bus, path: str, version: str = "") -> Entry:
    found = await bus.kv_get(topology.PLAYBOOKS, key_of(path, version))
    entry = decoded(found.value) if found is not None else None
    if entry is None or entry.deleted:
        which = f"{path!r}" + (f" version {version!r}" if version else "")
        raise NotRegistered(f"no playbook {which} is registered (noetlctl register FILE)")
    return entry


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
    known = {key: entry for key, data in found.items() if not (entry := decoded(data)).deleted}
    latest = {entry.path: entry for key, entry in known.items() if key == key_of(entry.path, "")}
    versions = {(entry.path, entry.version): entry for key, entry in known.items() if key != key_of(entry.path, "")}
    return [(entry, entry.means(latest.get(entry.path))) for _, entry in sorted(versions.items(), key=in_order)]


async def source(bus: Bus, digest: str) -> bytes:
    key = f"source.{digest}"  # never changed: any copy of it is right
    found = await bus.kv_get(topology.PLAYBOOKS, key, any_copy=True) or await bus.kv_get(topology.PLAYBOOKS, key)
    if found is None:
        raise NotRegistered(f"there is no playbook source with digest {digest[:12]}… in the catalogue")
    return found.value


def in_order(item: tuple[tuple[str, str], Entry]) -> tuple[str, list[tuple[int, str]], str]:
    """By path, then version, where 10 comes after 9."""
    path, version = item[0]
    return path, [(int(part), "") if part.isdecimal() else (-1, part) for part in version.split(".")], version


def decoded(data: bytes) -> Entry:
    return read(_decoder, data, "an entry of the catalogue", MAX_ENTRY_BYTES)


def key_of(path: str, version: str) -> str:
    return f"path.{encode_key(path)}.{encode_key(version)}"
