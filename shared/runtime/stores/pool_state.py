"""How a pool stands at this moment, for whoever asks: what people want of it, who paused it and why, its workers,
what waits and for how long. Read with the rights of `admin`; nothing is changed."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from shared.bus import pool_consumer, topology
from shared.bus.pool_consumer import Queue
from shared.bus.ports import Bus
from shared.dsl.pools import Pool
from shared.events.beat import Beat, Key
from shared.runtime import pools
from shared.runtime.pools import Entry, NotThere, Pause, Status

UNATTENDED_S = 15.0  # a reconciler writes its lease every 2 s
UNATTENDED = "no pools service runs, so nothing is changed (python -m services.pools)"
UNDOCUMENTED = "it has a consumer and no document (noetlctl pool create)"


class WorkerState(Struct, frozen=True):
    """`held` are the runs it has in hand. Without a beat it is `starting`."""

    name: str
    pool: str
    state: Literal["ready", "starting", "draining"]
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


class PoolState(Struct, frozen=True):
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


async def read(bus: Bus, name: str, now: float) -> PoolState:
    """Raises NotThere when there is neither a document nor a consumer."""
    bucket, beats = await bus.kv_all(topology.POOLS), await _beats(bus)
    entry = pools.entries(bucket).get(name)
    queue = await pool_consumer.look(bus, name)
    if entry is None and queue is None:
        raise NotThere(f"no pool {name!r} (`noetlctl pool list` shows what is there)")
    return await _state(bus, name, entry, bucket, beats.get(name, []), queue, now)


async def read_all(bus: Bus, now: float) -> list[PoolState]:
    bucket, beats = await bus.kv_all(topology.POOLS), await _beats(bus)
    known = pools.entries(bucket)
    found = []
    for name in sorted({*known, *await pool_consumer.names(bus)}):
        queue = await pool_consumer.look(bus, name)
        found.append(await _state(bus, name, known.get(name), bucket, beats.get(name, []), queue, now))
    return found


async def _beats(bus: Bus) -> dict[str, list[Beat]]:
    found: dict[str, list[Beat]] = {}
    for data in (await bus.kv_all(topology.WORKERS)).values():
        beat = msgspec.json.decode(data, type=Beat)
        found.setdefault(beat.pool, []).append(beat)
    return found


async def _state(
    bus: Bus, name: str, entry: Entry | None, bucket: Mapping[str, bytes], beats: list[Beat], queue: Queue | None,
    now: float,
) -> PoolState:
    status = pools.status(bucket, name)
    pool = pools.parse(entry) if entry is not None else None
    word, message = _word(entry, status, bucket, beats, now)
    since = await pool_consumer.oldest(bus, name, queue) if queue is not None else None
    return PoolState(
        name, word, message,
        pool.backend if pool is not None else "external",
        entry.workers if entry is not None and pool is not None and pool.backend == "process" else None,
        _workers(name, status, beats),
        queue.pending if queue is not None else None,
        queue.in_flight if queue is not None else None,
        max(0.0, now - since) if since is not None else None,
        entry.pause_at(now) if entry is not None else None,
        queue is not None and not queue.paused_until,
        entry, pool, status,
    )


def _word(
    entry: Entry | None, status: Status, bucket: Mapping[str, bytes], beats: list[Beat], now: float
) -> tuple[str, str]:
    if entry is None:
        return "ready" if beats else "empty", UNDOCUMENTED
    lease = bucket.get(pools.LEADER)
    if lease is None or now - pools.decode(lease, pools.Leader).at > UNATTENDED_S:
        return "unattended", UNATTENDED
    if status.generation != entry.generation:
        return "changing", ""
    return status.state, status.message


def _workers(name: str, status: Status, beats: list[Beat]) -> tuple[WorkerState, ...]:
    """What each says of itself, and what the reconciler knows of those it runs."""
    ours = {worker.name: worker for worker in status.workers}
    found = {}
    for beat in beats:
        known = ours.get(beat.worker)
        if known is not None and known.pid not in (0, beat.pid):
            continue  # the last word of a life that is over
        going = beat.draining or (known is not None and known.stopping)
        found[beat.worker] = WorkerState(
            beat.worker, name, "draining" if going else "ready", beat.slots, tuple(beat.held), beat.started, beat.host,
            beat.pid, beat.version, beat.provides,
            *((known.failures, known.ended, known.log) if known is not None else ()),
        )
    for worker in status.workers:
        if worker.name in found:
            continue
        state: Literal["draining", "starting"] = "draining" if worker.stopping else "starting"
        found[worker.name] = WorkerState(
            worker.name, name, state, since=worker.since, host=status.host, pid=worker.pid,
            failures=worker.failures, ended=worker.ended, log=worker.log,
        )
    return tuple(found[each] for each in sorted(found))
