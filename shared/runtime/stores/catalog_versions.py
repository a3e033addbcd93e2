"""Versions in the catalogue: what a source is registered as, what a path named before, the way back, and deletion.

A version, once registered, means one source, unless someone says that it is to be replaced. A source that states no
version gets the next whole number. Sources are never removed (`catalog.py`), so nothing here touches an execution.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.kv import decode_key, is_deleted, stream_of
from shared.bus.kv import key_of as kv_key
from shared.bus.ports import Bus, Message
from shared.dsl.model.plan import Plan
from shared.errors import Conflict, NoetlError
from shared.events import subjects
from shared.runtime.stores import catalog
from shared.runtime.stores.catalog import Entry, NotRegistered

Status = Literal["created", "changed", "unchanged", "restored"]
What = Literal["registered", "replaced", "latest", "deleted"]
TRIES = 5
MIN_DIGEST = 6  # characters that name a source of the history


class VersionTaken(NoetlError):
    """The version is registered with another source."""

    def __init__(self, known: Entry) -> None:
        super().__init__(f"version {known.version!r} of {known.path} is registered with other content")
        self.known = known


class Placed(Struct, frozen=True):
    """Where a source stands, or would stand. `before` is what it takes the place of: the former source of that
    version, or the one that was the latest. `restored`: the source was there, and is the latest again."""

    entry: Entry
    status: Status
    before: Entry | None = None
    revision: int = 0


class Change(Struct, frozen=True):
    """One line of a history. `at` is the broker's time in ns."""

    seq: int
    at: int
    what: What
    entry: Entry


class Versions(Struct, frozen=True):
    """A path as the catalogue has it, with what it had. `revisions` are of the versions' keys."""

    path: str
    latest: Entry | None
    versions: Mapping[str, Entry]
    revisions: Mapping[str, int]
    history: tuple[Change, ...]


async def of(bus: Bus, path: str) -> Versions:
    """Raises NotRegistered when nothing was ever registered under the path."""
    found = await _read(bus, path)
    if not found.history:
        raise NotRegistered(f"no playbook {path!r} is registered (noetlctl register FILE)")
    return found


async def _read(bus: Bus, path: str) -> Versions:
    wanted = subjects.key(topology.PLAYBOOKS, catalog.key_of(path, "").rpartition(".")[0] + ".*")
    return told(path, await bus.read(stream_of(topology.PLAYBOOKS), [wanted]))


def told(path: str, messages: Sequence[Message]) -> Versions:
    """From the messages of its keys, in order."""
    latest: Entry | None = None
    versions: dict[str, Entry] = {}
    revisions: dict[str, int] = {}
    history: list[Change] = []
    for message in messages:
        key = kv_key(topology.PLAYBOOKS, message.subject)
        entry = None if is_deleted(message.headers) else catalog.decoded(message.data)
        if key == catalog.key_of(path, ""):
            last = history[-1].entry if history else None
            if entry is not None and not entry.deleted and not entry.means(latest) and not entry.means(last):
                history.append(Change(message.seq, message.at, "latest", entry))
            latest = None if entry is None or entry.deleted else entry
        elif entry is not None:
            known = versions.get(entry.version)
            if entry.deleted:
                history.append(Change(message.seq, message.at, "deleted", entry))
                versions.pop(entry.version, None)
            elif not entry.means(known):
                what: What = "registered" if known is None else "replaced"
                history.append(Change(message.seq, message.at, what, entry))
                versions[entry.version] = entry
            revisions[entry.version] = message.seq
        else:
            revisions.pop(decode_key(key.rpartition(".")[2]), None)  # it is made again as a new key
    return Versions(path, latest, versions, revisions, tuple(history))


# Registering

async def place(
    bus: Bus, source: bytes, plan: Plan, *, stated: bool, over: bool = False, by: str = "", dry_run: bool = False
) -> Placed:
    """`stated`: the source says its version. `over`: another source of that version is replaced; else VersionTaken."""
    for _ in range(TRIES):
        placed = decide(await _read(bus, plan.path), replace(catalog.entry_of(source, plan), by=by), stated, over)
        if dry_run or placed.status == "unchanged":
            return placed
        await catalog.store(bus, placed.entry, source)
        try:
            await catalog.point(bus, placed.entry, expected=placed.revision)
        except Conflict:
            continue
        return placed
    raise Conflict(f"{plan.path} is being registered by others all the time: try again")


def decide(known: Versions, entry: Entry, stated: bool, over: bool) -> Placed:
    if not stated:
        entry = replace(entry, version=_next(known, entry.digest, over))
    there = known.versions.get(entry.version)
    revision = known.revisions.get(entry.version, 0)
    if there is None:
        return Placed(entry, "created", known.latest, revision)
    if there.digest == entry.digest:
        if there.means(known.latest):
            return Placed(there, "unchanged", there, revision)
        return Placed(entry, "restored", known.latest, revision)
    if not over:
        raise VersionTaken(there)
    return Placed(entry, "changed", there, revision)


def _next(known: Versions, digest: str, over: bool) -> str:
    """For a source that states none: the one that has this source already, the latest if it is to be replaced, or a
    new one."""
    if known.latest is not None and (over or known.latest.digest == digest):
        return known.latest.version
    same = [version for version, entry in known.versions.items() if entry.digest == digest]
    used = {change.entry.version for change in known.history}  # a deleted version is not given again
    return same[-1] if same else str(max((int(each) for each in used if each.isdecimal()), default=0) + 1)


# The way back

async def roll_back(bus: Bus, path: str, to: str, by: str) -> tuple[Entry | None, Entry]:
    """What the path named, and what it names from now on: the version or digest `to`, or what was the latest before."""
    known = await of(bus, path)
    found = earlier(known, to)
    entry = replace(found, by=by)
    if not entry.means(known.versions.get(entry.version)):
        await catalog.point(bus, entry, expected=known.revisions.get(entry.version, 0))
    elif not entry.means(known.latest):
        await bus.kv_put(topology.PLAYBOOKS, catalog.key_of(path, ""), msgspec.json.encode(entry))
    return known.latest, entry


def earlier(known: Versions, to: str) -> Entry:
    """Raises NotRegistered when the history has nothing of that name."""
    if not to:
        there = [each.entry for each in known.history if each.entry.version in known.versions]
        before = [entry for entry in there if not entry.deleted and not entry.means(known.latest)]
        if not before:
            raise NotRegistered(f"{known.path} has never been anything else: there is nothing to roll back to")
        return before[-1]
    return one(known, to)


def one(known: Versions, name: str) -> Entry:
    """A version that is there, or a source of the history by its digest."""
    if name in known.versions:
        return known.versions[name]
    if len(name) >= MIN_DIGEST:
        found = {each.entry.digest: each.entry for each in known.history if each.entry.digest.startswith(name)}
        if len(found) == 1:
            return replace(next(iter(found.values())), deleted=False)
    there = ", ".join(known.versions) or "none"
    raise NotRegistered(f"{known.path} has no version {name!r} and no such digest in its history (versions: {there}; "
                        f"noetlctl playbook history {known.path})")


# Deletion

async def delete(bus: Bus, path: str, version: str, by: str) -> tuple[list[Entry], Entry | None]:
    """What is gone, and what the path means from now on. Without a version, all of it."""
    known = await of(bus, path)
    if version and version not in known.versions:
        raise NotRegistered(f"no playbook {path!r} version {version!r} is registered")
    gone = [known.versions[version]] if version else list(known.versions.values())
    if not gone:
        raise NotRegistered(f"no playbook {path!r} is registered any more (noetlctl playbook history {path})")
    left = {name: entry for name, entry in known.versions.items() if entry not in gone}
    latest = known.latest if known.latest is not None and known.latest.version in left else _latest(known, left)
    if latest is None:  # first what requests without a version see
        await bus.kv_delete(topology.PLAYBOOKS, catalog.key_of(path, ""))
    elif not latest.means(known.latest):
        await bus.kv_put(topology.PLAYBOOKS, catalog.key_of(path, ""), msgspec.json.encode(replace(latest, by=by)))
    for entry in gone:
        key = catalog.key_of(path, entry.version)
        last_word = msgspec.json.encode(replace(entry, by=by, deleted=True))
        await bus.kv_put(topology.PLAYBOOKS, key, last_word, expected=known.revisions[entry.version])
        await bus.kv_delete(topology.PLAYBOOKS, key)
    return gone, latest


def _latest(known: Versions, left: Mapping[str, Entry]) -> Entry | None:
    """Of those that are left, the one that was registered or made the latest last."""
    was = [each.entry for each in known.history if each.entry.means(left.get(each.entry.version))]
    return was[-1] if was else next(iter(left.values()), None)

