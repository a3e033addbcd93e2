"""Pools in KV `noetl_pools`. `pool.<name>` is what people want of a pool: its document, and what was said since
(scale, pause, drain, restart). `status.<name>` is what the reconciler found and does, and nobody else writes it.
`leader` is the lease of the reconciler that acts. Every change of a pool compares and sets."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from shared.bus import topology
from shared.bus.pool_consumer import moment
from shared.bus.ports import Bus
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool
from shared.engine.pools.reconcile import Drained
from shared.errors import Conflict, Corrupt
from shared.events.bounds import POOL
from shared.events.stamp import stamp
from shared.runtime.stores.documents import Documents, Done, NotThere

MAX_POOLS = 200
MAX_NOTE = 500
LEADER = "leader"
T = TypeVar("T")


class Pause(Struct, frozen=True, omit_defaults=True):
    """`until` 0: until someone resumes it."""

    by: str
    at: float
    note: str = ""
    until: float = 0.0


class Drain(Struct, frozen=True):
    by: str
    at: float
    timeout_s: float
    note: str = ""


class Entry(Struct, frozen=True, omit_defaults=True):
    """`generation` counts the changes; `by` and `at` say whose the last one was. `restarts` counts rolling
    restarts that were asked for. `pinned`: somebody set the number of workers of a pool that scales by demand.
    `taken_from`: the owner that it was taken over from, whose document does not replace it again unasked."""

    source: str
    generation: int
    by: str
    at: float
    workers: int = 1
    paused: Pause | None = None
    drain: Drain | None = None
    restarts: int = 0
    deleting: bool = False
    pinned: bool = False
    taken_from: str = ""

    def pause_at(self, now: float) -> Pause | None:
        """The pause in force."""
        if self.drain is not None:
            return Pause(self.drain.by, self.drain.at, self.drain.note or "drain")
        paused = self.paused
        return paused if paused is not None and (not paused.until or paused.until > now) else None

    def asks_for(self, demand: int) -> int:
        """What of its demand is for workers to do: of a pool that goes, nothing."""
        return 0 if self.drain is not None or self.deleting else demand

    def paused_until(self, now: float) -> str:
        """For the consumer; empty when it delivers."""
        paused = self.pause_at(now)
        return "" if paused is None else moment(paused.until)


class WorkerStatus(Struct, frozen=True, omit_defaults=True):
    """A worker that the reconciler runs. `ended` is how its last life went. `silent_since`: it was there, and this is
    when it was last heard; 0 unless it is silent. `host`: the machine of its own, if it has one: beats from there are
    its."""

    name: str
    pid: int = 0
    since: float = 0.0
    stopping: bool = False
    failures: int = 0
    ended: str = ""
    log: str = ""
    silent_since: float = 0.0
    host: str = ""


class Crash(Struct, frozen=True):
    """A life of a worker that ended by itself, or had to be killed."""

    at: float
    worker: str
    ended: str
    log: str = ""


class DrainStatus(Struct, frozen=True, omit_defaults=True):
    """`at` is that of the drain it belongs to; `before` are the deliveries in flight when it began. `over`: waiting
    is. `report` is there when everyone is gone."""

    at: float
    before: int = 0
    over: bool = False
    report: Drained | None = None


class Status(Struct, frozen=True, omit_defaults=True):
    """`generation` is the one it is about; `settled`: the workers are as it wants them. `crashes` are those of late, of
    whichever workers it had: the next reconciler has others. `desired`: how many workers the demand asks for; None when
    people, or others, say how many."""

    generation: int = 0
    state: str = ""
    message: str = ""
    host: str = ""
    workers: tuple[WorkerStatus, ...] = ()
    drain: DrainStatus | None = None
    settled: bool = False
    crashes: tuple[Crash, ...] = ()
    desired: int | None = None


class Leader(Struct, frozen=True, omit_defaults=True):
    """`skew`: by how much its machine's clock is ahead of the broker's."""

    holder: str
    at: float
    skew: float = 0.0


DOCUMENTS = Documents(topology.POOLS, "pool", Entry, most=MAX_POOLS, state="status", name=POOL)


def status_key(name: str) -> str:
    return DOCUMENTS.state_key(name)


def subject() -> str:
    """Where it is written what people want of pools."""
    return DOCUMENTS.subject()


def parse(entry: Entry) -> Pool:
    """Corrupt if the stored source is not a document, or no longer one."""
    return _parsed(entry.source)


@lru_cache(maxsize=2 * MAX_POOLS)
def _parsed(source: str) -> Pool:
    compiled = compile_pool(source, stored=True)
    if compiled.document is None:
        raise Corrupt(f"the stored pool is not valid: {compiled.diagnostics[0]}")
    return compiled.document


def entries(bucket: Mapping[str, bytes]) -> dict[str, Entry]:
    """The pools among all keys of the bucket, by name."""
    return DOCUMENTS.entries(bucket)


def names(bucket: Mapping[str, bytes]) -> list[str]:
    """Also of those whose entry cannot be read: nobody has deleted them."""
    return DOCUMENTS.names(bucket)


def status(bucket: Mapping[str, bytes], name: str) -> Status:
    """Written again with the next look if it is missing, or cannot be read."""
    return _read(Status, bucket.get(status_key(name)), Status())


def leader(data: bytes | None) -> Leader:
    """Nobody's, if it cannot be read."""
    return _read(Leader, data, Leader("", 0.0))


def _read(type_: type[T], data: bytes | None, otherwise: T) -> T:
    try:
        return DOCUMENTS.decode_as(type_, data) if data is not None else otherwise
    except Corrupt:
        return otherwise


def without_document(bucket: Mapping[str, bytes]) -> list[str]:
    """Pools that are gone, and still have a status."""
    return DOCUMENTS.without_document(bucket)


async def everything(bus: Bus) -> dict[str, Entry]:
    return await DOCUMENTS.everything(bus)


async def find(bus: Bus, name: str) -> tuple[Entry, int]:
    """Raises NotThere."""
    return await DOCUMENTS.find(bus, name)


async def apply(
    bus: Bus, pool: Pool, source: str, by: str, now: float, *, generation: int | None = None, new: bool = False,
    take_over: bool = False,
) -> tuple[Done, Entry]:
    """Conflict when someone else changed it meanwhile, or since `generation`; or when it is to be `new` and is not; or
    when it is another's, unless it is to `take_over`. Not tried again: whoever applies a document has seen what it
    replaces."""
    try:
        old, revision = await find(bus, pool.name)
    except NotThere:
        if generation:
            raise Conflict(f"pool {pool.name} is not there any more, generation {generation} was wanted") from None
        entry = Entry(source, 1, by, now, 1 if pool.workers is None else pool.workers)
        return "created", await _put(bus, pool.name, entry, 0)
    if new:
        raise Conflict(f"pool {pool.name} is there already: {_whose(old)}")
    if generation is not None and old.generation != generation:
        raise Conflict(f"pool {pool.name} is not at generation {generation} any more: {_whose(old)}")
    if old.deleting:
        raise Conflict(f"pool {pool.name} is being deleted: {_whose(old)}")
    owner = owner_of(old)
    if not take_over and pool.owner != owner and (owner or pool.owner == old.taken_from):
        raise NotYours(f"pool {pool.name} {belongs(old)}")
    taken_from = old.taken_from if pool.owner == owner else "" if pool.owner else owner
    entry = replace(old, source=source, workers=old.workers if pool.workers is None else pool.workers,
                    taken_from=taken_from)
    if entry == old:
        return "unchanged", old
    return "changed", await _put(bus, pool.name, _next(entry, by, now), revision)


class NotYours(Conflict):
    """The pool belongs to another, who would undo it."""


def owner_of(entry: Entry) -> str:
    """Empty: nobody's in particular, also when its document cannot be read."""
    try:
        return parse(entry).owner
    except Corrupt:
        return ""


def belongs(entry: Entry) -> str:
    """To whom, for people who may not change it."""
    if owner := owner_of(entry):
        return f"belongs to {owner}: change it there, or take it over"
    return f"was taken over from {entry.taken_from}: {_whose(entry)}"


async def change(bus: Bus, name: str, by: str, now: float, how: Callable[[Entry], Entry]) -> Entry:
    """The entry as it is now. What people say goes over what others said: it is tried again on a conflict."""
    def changed(old: Entry) -> Entry:
        entry = how(old)
        return old if entry == old else _next(entry, by, now)

    return (await DOCUMENTS.change(bus, name, changed))[1]


async def delete(bus: Bus, name: str) -> None:
    await DOCUMENTS.delete(bus, name)


async def consumers(bus: Bus, given: Iterable[str], now: float) -> dict[str, str]:
    """Pools that need a consumer, with the time until which it is paused: those given, and those in KV."""
    return {**dict.fromkeys(given, ""), **{n: e.paused_until(now) for n, e in (await everything(bus)).items()}}


def _next(entry: Entry, by: str, now: float) -> Entry:
    return replace(entry, generation=entry.generation + 1, by=by, at=now)


async def _put(bus: Bus, name: str, entry: Entry, revision: int) -> Entry:
    """A conflict says who was first."""
    try:
        await DOCUMENTS.put(bus, name, entry, revision)
    except Conflict:
        try:
            won, _ = await find(bus, name)
        except NotThere:
            raise Conflict(f"pool {name} was deleted meanwhile") from None
        raise Conflict(f"pool {name} was changed meanwhile: {_whose(won)}") from None
    return entry


def _whose(entry: Entry) -> str:
    return f"generation {entry.generation} by {entry.by} at {stamp(entry.at)}"
