"""The present state of a pool: what people want of it, who paused it and why, its workers,
what waits and for how long. Read with the rights of `admin`; nothing is changed."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from shared.bus import pool_consumer, topology
from shared.bus.pool_consumer import Queue
from shared.bus.ports import Bus
from shared.dsl.documents.pools import Pool
from shared.events.beat import Beat, Busy, Key, latest_of_hosts
from shared.events.bounds import POOL
from shared.runtime.stores import heartbeats as beats_of
from shared.runtime.stores import pools
from shared.runtime.stores.documents import NotThere
from shared.runtime.stores.pools import Entry, Pause, Status, WorkerStatus

UNATTENDED_S = 15.0  # a reconciler writes its lease every 2 s
UNATTENDED = "no pools service runs, so nothing is changed"
UNDOCUMENTED = "it has a consumer and no document"


class WorkerState(Struct, frozen=True):
    """`held` are the runs it has in hand. Without a beat it is `starting`; `silent` when it had said that it is there,
    its process lives, and nothing was heard of it since `silent_since`."""

    name: str
    pool: str
    state: Literal["ready", "starting", "draining", "silent"]
    slots: int = 0
    held: tuple[Key, ...] = ()
    since: float = 0.0
    host: str = ""
    pid: int = 0
    version: str = ""
    provides: tuple[str, ...] = ()
    failures: int = 0
    ended: str = ""
    log: str = ""
    tools: tuple[Busy, ...] = ()
    silent_since: float = 0.0


class PoolState(Struct, frozen=True, kw_only=True):
    """`paused` is the pause in force, whoever asked for it. `pending`, `in_flight` and `oldest_s` are of its
    consumer; None without one. `entry` None: no document. `desired` None: others decide."""

    name: str
    state: str
    message: str
    backend: str
    desired: int | None
    workers: tuple[WorkerState, ...]
    pending: int | None
    in_flight: int | None
    oldest_s: float | None
    paused: Pause | None
    delivers: bool
    entry: Entry | None
    pool: Pool | None
    status: Status

    @property
    def ready(self) -> int:
        return sum(worker.state == "ready" for worker in self.workers)

    @property
    def busy(self) -> int:
        return sum(bool(worker.held) for worker in self.workers)

    def tools(self) -> dict[str, tuple[int, int]]:
        """Of the kinds that take turns: how many calls are made, and how many can be."""
        found: dict[str, tuple[int, int]] = {}
        for busy in (busy for worker in self.workers for busy in worker.tools):
            taken, size = found.get(busy.kind, (0, 0))
            found[busy.kind] = taken + busy.taken, size + busy.size
        return found


async def read(bus: Bus, name: str, now: float) -> PoolState:
    """Raises NotThere when there is neither a document nor a consumer."""
    bucket, beats = await bus.kv_all(topology.POOLS), await beats_of.by_pool(bus)
    entry = pools.entries(bucket).get(name)
    queue = await pool_consumer.look(bus, name) if POOL.fullmatch(name) else None
    if entry is None and queue is None:
        raise NotThere(f"no pool {name!r} (`noetlctl pool list` shows what is there)")
    return await _state(bus, name, entry, bucket, beats.get(name, []), queue, now)


async def read_all(bus: Bus, now: float) -> list[PoolState]:
    bucket, beats = await bus.kv_all(topology.POOLS), await beats_of.by_pool(bus)
    known = pools.entries(bucket)
    found = []
    for name in sorted({*known, *await pool_consumer.names(bus)}):
        queue = await pool_consumer.look(bus, name)
        found.append(await _state(bus, name, known.get(name), bucket, beats.get(name, []), queue, now))
    return found


async def _state(
    bus: Bus, name: str, entry: Entry | None, bucket: Mapping[str, bytes], beats: list[Beat], queue: Queue | None,
    now: float,
) -> PoolState:
    status = pools.status(bucket, name)
    pool = pools.parse(entry) if entry is not None else None
    word, message = _word(entry, status, bucket, beats, now)
    if word == "ready" and (full := _full(beats, queue)):
        word, message = "full", full
    since = await pool_consumer.oldest(bus, name, queue) if queue is not None else None
    return PoolState(
        name=name, state=word, message=message, backend=pool.backend if pool is not None else "external",
        desired=_desired(entry, pool, status),
        workers=worker_states(name, status, beats), pending=queue.pending if queue is not None else None,
        in_flight=queue.in_flight if queue is not None else None,
        oldest_s=max(0.0, now - since) if since is not None else None,
        paused=entry.pause_at(now) if entry is not None else None,
        delivers=queue is not None and not queue.paused_until, entry=entry, pool=pool, status=status,
    )


def _desired(entry: Entry | None, pool: Pool | None, status: Status) -> int | None:
    if entry is None or pool is None or not pool.ours:
        return None
    return entry.workers if pool.scales is None or entry.pinned or status.desired is None else status.desired


def _word(
    entry: Entry | None, status: Status, bucket: Mapping[str, bytes], beats: list[Beat], now: float
) -> tuple[str, str]:
    if entry is None:
        return "ready" if beats else "empty", UNDOCUMENTED
    if now - pools.leader(bucket.get(pools.LEADER)).at > UNATTENDED_S:
        return "unattended", UNATTENDED
    if status.generation != entry.generation:
        return "changing", ""
    return status.state, status.message


def _full(beats: list[Beat], queue: Queue | None) -> str:
    """Runs wait, and every worker makes as many calls of a kind as it can: its free slots serve other kinds only."""
    for kind in sorted({busy.kind for beat in beats for busy in beat.busy}):
        of_kind = [busy for beat in beats for busy in beat.busy if busy.kind == kind]
        waiting = sum(busy.waiting for busy in of_kind)
        if len(of_kind) == len(beats) and all(busy.is_full for busy in of_kind) and (
                waiting or (queue is not None and queue.pending)):
            size = sum(busy.size for busy in of_kind)
            return f"all {size} {kind} processes of its workers are busy, and runs wait"
    return ""


def worker_states(name: str, status: Status, beats: list[Beat]) -> tuple[WorkerState, ...]:
    """What each says of itself, and what the reconciler knows of those it runs."""
    ours = {worker.name: worker for worker in status.workers}
    hosts = {worker.host: worker for worker in status.workers if worker.host}
    latest = latest_of_hosts(beats)
    found, heard = {}, set()
    for beat in beats:
        known = hosts.get(beat.host) or ours.get(beat.worker)
        if known is not None and known.host and latest[beat.host] is not beat:
            continue  # of an earlier process there
        if known is not None and known.pid not in (0, beat.pid):
            continue  # the last beat of a life that is over
        known = known or WorkerStatus(beat.worker)
        heard.add(known.name)
        going, silent = beat.draining or known.stopping, known.silent_since > 0
        found[beat.worker] = WorkerState(
            name=beat.worker, pool=name, state="silent" if silent else "draining" if going else "ready",
            slots=beat.slots, held=tuple(beat.held), since=beat.started, host=beat.host, pid=beat.pid,
            version=beat.version, provides=beat.provides, failures=known.failures, ended=known.ended, log=known.log,
            tools=tuple(beat.busy), silent_since=known.silent_since,
        )
    for worker in status.workers:
        if worker.name in heard:
            continue
        found[worker.name] = WorkerState(
            worker.name, name, "silent" if worker.silent_since else "draining" if worker.stopping else "starting",
            since=worker.since, host=worker.host or status.host, pid=worker.pid, failures=worker.failures,
            ended=worker.ended, log=worker.log, silent_since=worker.silent_since,
        )
    return tuple(found[each] for each in sorted(found))
