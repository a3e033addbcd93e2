"""One look at every pool: what people want and what is there, the next steps, and their results.

Only the leader looks. Everything it needs is in KV and in what the workers say, so the next leader continues
where it stopped."""

import hashlib
import socket
from collections.abc import Mapping, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from services.pools.backends import Attended, Backend, Running
from services.pools.draining import Drains
from services.pools.figures import Figures
from services.pools.scaling import Scales
from services.pools.silence import Hearing, Life
from shared.bus import pool_consumer, topology
from shared.bus.pool_consumer import Queue
from shared.bus.ports import Bus, Clock
from shared.dsl.documents.pools import DEFAULT_DRAIN_S, Pool
from shared.engine.pools import reconcile as engine
from shared.engine.pools.reconcile import CRASHING_S, Kill, Seen, Start, Stop, Wanted
from shared.errors import Corrupt
from shared.events.beat import Beat, latest_of_hosts
from shared.events.stamp import seconds, stamp
from shared.runtime.stores import pools
from shared.runtime.stores.demand import Demands
from shared.runtime.stores.pools import Crash, DrainStatus, Entry, Status, WorkerStatus

CLOCKS_S = 1.0  # a pause that ends this much earlier or later than wanted is the same
MAX_CRASHES = 20  # of a pool, remembered
log = structlog.get_logger()


class Reconciler:
    def __init__(self, bus: Bus, clock: Clock, backends: Mapping[str, Backend], demands: Demands) -> None:
        self._bus, self._clock, self._backends = bus, clock, backends
        self._drains, self._hearing, self._scales = Drains(clock), Hearing(bus, clock), Scales(clock, demands)
        self._demands, self.figures = demands, Figures(clock)
        self.settled = False  # nothing is on its way to what is wanted

    async def look(self) -> None:
        bucket = await self._bus.kv_all(topology.POOLS)
        beats = await self._hearing.listen(self._ours())
        states = []
        known = pools.entries(bucket)
        for name, entry in known.items():
            before = pools.status(bucket, name)
            after = await self._pool(name, entry, before, beats.get(name, []))
            states.append(after.state)
            if after != before:
                await self._bus.kv_put(topology.POOLS, pools.status_key(name), msgspec.json.encode(after))
        self._end_forgotten(pools.names(bucket))
        self._scales.forget(set(known))
        self.figures.keep(set(known))
        for name in pools.without_document(bucket):
            await self._bus.kv_delete(topology.POOLS, pools.status_key(name))
        self.settled = "scaling" not in states and "waiting" not in states

    def _ours(self) -> set[Life]:
        """The processes of workers that are looked after here."""
        return {(each.status.name, each.status.pid) for backend in self._backends.values()
                for pool in backend.pools() for each in backend.workers(pool)}

    def _end_forgotten(self, known: Sequence[str]) -> None:
        """Workers of pools that are gone."""
        for backend in self._backends.values():
            for pool in backend.pools():
                if pool not in known:
                    self._stop_all(backend, pool, DEFAULT_DRAIN_S)

    async def _pool(self, name: str, entry: Entry, before: Status, beats: Sequence[Beat]) -> Status:
        try:
            pool = pools.parse(entry)
        except Corrupt as error:
            log.error("pool.unreadable", pool=name, error=str(error))
            return Status(entry.generation, "failing", str(error))
        backend = self._backends[pool.backend]
        for other in self._backends.values():
            if other is not backend:
                self._stop_all(other, name, pool.drain_s)
        queue = await self._deliver(name, entry)
        drain = self._drains.advance(name, entry, before, queue, beats)
        backend.attend(Attended(pool, _template(pool, entry), _held(beats), bool(entry.taken_from), entry.deleting))
        desired = self._scales.desired(pool, entry, before, queue)
        workers = entry.workers if desired is None else desired
        wanted = _wanted(pool, entry, workers, drain, _blocked(backend.missing(pool), queue), beats)
        seen = self._seen(backend.workers(name), beats) if wanted.ours else _said(beats)
        for action in engine.decide(wanted, seen):
            self._do(backend, pool, wanted.template, action)
        crashes = self._crashes(before, backend.workers(name))
        paused = entry.pause_at(self._clock.now()) is not None
        state = engine.state(wanted, seen, paused=paused, crashes=len(crashes))
        demand = self._demands.added(name, queue)
        self.figures.saw(
            name, queue, None if demand is None else entry.asks_for(demand.total), beats, wanted=wanted.workers,
            state=state, crashes=len(crashes))
        if state == "drained" and drain is not None and drain.report is None:
            left = await pool_consumer.look(self._bus, name)  # again: someone may have finished at the last moment
            drain = self._drains.reported(drain, left, () if wanted.ours else beats)
        running = tuple(self._told(each.status) for each in backend.workers(name))
        return Status(
            generation=entry.generation, state=state, message=_message(state, wanted, running, crashes, pool),
            host=socket.gethostname(), workers=running, drain=drain, settled=engine.settled(wanted, seen),
            crashes=crashes, desired=desired,
        )

    def _seen(self, running: Sequence[Running], beats: Sequence[Beat]) -> list[Seen]:
        """A beat of an earlier life under the same name says nothing of this one."""
        said = {(beat.worker, beat.pid): beat for beat in beats}
        hosts = latest_of_hosts(beats)
        found = []
        for each in running:
            status = each.status
            beat = hosts.get(status.host) if status.host else said.get((status.name, status.pid))
            heard = self._hearing.of(status.name, status.pid)
            silent_s = heard.silent_s if heard is not None else 0.0
            ready = beat is not None and each.ready
            worker = Seen(status.name, each.template, ready, len(beat.held) if beat is not None else 0,
                          status.stopping, status.failures, silent_s)
            found.append(replace(worker, ready=worker.ready and not engine.is_silent(worker)))
        return found

    def _told(self, status: WorkerStatus) -> WorkerStatus:
        """With the time since which it is silent, if it is."""
        heard = self._hearing.of(status.name, status.pid)
        silent = heard is not None and heard.silent_s > engine.SILENT_S
        return replace(status, silent_since=heard.at) if heard is not None and silent else status

    def _crashes(self, before: Status, running: Sequence[Running]) -> tuple[Crash, ...]:
        """Of the workers there are, and those that this reconciler or the one before it knew."""
        found = {(crash.at, crash.worker): crash for crash in before.crashes}
        found |= {(crash.at, crash.worker): crash for each in running for crash in each.crashes}
        late = self._clock.now() - CRASHING_S
        return tuple(found[at] for at in sorted(found) if at[0] > late)[-MAX_CRASHES:]

    async def _deliver(self, name: str, entry: Entry) -> Queue | None:
        """The consumer delivers, or does not, as people want it; it may have been recreated."""
        queue = await pool_consumer.look(self._bus, name)
        if queue is None:
            return None
        now = self._clock.now()
        until = entry.paused_until(now)
        if until and (not queue.paused_until or abs(seconds(until) - seconds(queue.paused_until)) > CLOCKS_S):
            await pool_consumer.pause(self._bus, name, until)
            log.info("pool.paused", pool=name, until=until)
        elif not until and queue.paused_until and seconds(queue.paused_until) > now + CLOCKS_S:
            await pool_consumer.resume(self._bus, name, now)
            log.info("pool.resumed", pool=name)
        else:
            return queue
        return await pool_consumer.look(self._bus, name)

    def _do(self, backend: Backend, pool: Pool, template: str, action: engine.Action) -> None:
        match action:
            case Start(count=count):
                backend.start(pool, template, count)
            case Stop(name=name, within_s=within_s):
                backend.stop(name, within_s)
            case Kill(name=name, silent_s=silent_s):
                backend.kill(name, f"silent for {silent_s:.0f} s")

    def _stop_all(self, backend: Backend, pool: str, within_s: float) -> None:
        for each in backend.workers(pool):
            if not each.status.stopping:
                backend.stop(each.status.name, within_s)


def _held(beats: Sequence[Beat]) -> dict[str, int]:
    return {host: len(beat.held) for host, beat in latest_of_hosts(beats).items() if host}


def _wanted(
    pool: Pool, entry: Entry, workers: int, drain: DrainStatus | None, blocked: str, beats: Sequence[Beat]
) -> Wanted:
    """Of a pool that others run or scale, whatever workers there are."""
    ours = pool.ours
    return Wanted(
        workers=workers if ours else sum(not beat.draining for beat in beats), template=_template(pool, entry),
        drain_s=pool.drain_s, drain=entry.drain is not None, drain_over=drain is not None and drain.over,
        deleting=entry.deleting, blocked=blocked, ours=ours, silent_s=pool.silent_s,
    )


def _blocked(missing: str, queue: Queue | None) -> str:
    if missing:
        return missing
    return "" if queue is not None else f"no consumer on {topology.COMMANDS}: a scheduler makes it"


def _said(beats: Sequence[Beat]) -> list[Seen]:
    return [Seen(beat.worker, "", True, len(beat.held), beat.draining) for beat in beats]


def _template(pool: Pool, entry: Entry) -> str:
    """Everything that a worker is started with. On Kubernetes that is the Deployment's, whose controller replaces Pods
    when it changes."""
    if pool.backend == "kubernetes":
        return f"r{entry.restarts}"
    parts = (pool.slots, pool.provides, pool.tools_disabled, pool.drain_s, entry.restarts)
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()


def _message(
    state: str, wanted: Wanted, workers: Sequence[WorkerStatus], crashes: Sequence[Crash], pool: Pool
) -> str:
    if state in ("waiting", "deleting", "draining"):  # these two are on their way, unless something keeps them
        return wanted.blocked
    if state == "failing":
        worst = max(workers, key=lambda status: status.failures)
        return f"{worst.name} ended {worst.failures} times in a row, with {worst.ended}: see {worst.log}"
    if state == "crashing":
        last = crashes[-1]
        return (f"its workers ended by themselves {len(crashes)} times in {CRASHING_S / 60:g} minutes, the last of "
                f"them {last.worker} with {last.ended} at {stamp(last.at)}: see {last.log}")
    if state == "silent":
        return _silent(workers, wanted.silent_s)
    if state == "empty" and not wanted.ours:
        scaled = "no worker is there: KEDA starts them by demand"
        start = f"no worker has said that it is there (NOETL_POOL={pool.name} python -m services.worker)"
        return start if pool.backend == "external" else scaled
    return ""


def _silent(workers: Sequence[WorkerStatus], silent_s: float) -> str:
    first, *more = sorted((status for status in workers if status.silent_since), key=lambda each: each.silent_since)
    others = f", and {len(more)} more are silent" if more else ""
    return (f"{first.name} has said nothing since {stamp(first.silent_since)}{others}: its process is there, and is "
            f"killed and started anew after {silent_s:g} s of silence")
